// SPDX-License-Identifier: Apache-2.0
#include "exporter/catalog/reference.h"

#include <array>
#include <charconv>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "exporter/catalog/catalog.h"
#include "exporter/catalog/node_infiniband.h"

namespace roce {
namespace {

std::string_view proof_word(Proof proof) {
  switch (proof) {
    case Proof::kReal:
      return "real";
    case Proof::kSimulated:
      return "simulated";
    case Proof::kMade:
      return "made";
    case Proof::kRead:
      break;
  }
  return "read";
}

std::string scale_text(const CounterRow& row) {
  if (row.divide == 1) return std::to_string(row.multiply);
  std::array<char, 32> buffer{};
  const double scale = static_cast<double>(row.multiply) / static_cast<double>(row.divide);
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), scale);
  return std::string(buffer.data(), end.ptr);
}

// A counter that stands for names known only at run time has no fixed label value.
bool stands_for_others(const CounterRow& row) { return row.counter.starts_with('('); }

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    parts.push_back(list.substr(0, comma));
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
  }
  return parts;
}

struct Label {
  std::string_view name;
  std::string_view value;
};

// The labels that are fixed for a counter. A value comes from the row's values, since a driver's own spelling may hold
// a comma.
std::vector<Label> fixed_labels(const CounterRow& row) {
  std::vector<Label> labels;
  if (row.metric == nullptr || stands_for_others(row)) return labels;
  std::size_t next = 0;
  for (std::string_view name : split(row.metric->labels)) {
    if (is_object_label(name)) continue;
    labels.push_back({name, row.values.text[next++]});
  }
  return labels;
}

using Sources = std::map<const MetricDesc*, std::vector<const CounterRow*>>;

Sources sources_by_metric() {
  Sources sources;
  for (const CounterRow& row : all_counters()) {
    if (row.metric != nullptr) sources[row.metric].push_back(&row);
  }
  return sources;
}

// ---- JSON ----

void append_json(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_member(std::string& out, std::string_view name, std::string_view text, bool first = false) {
  if (!first) out += ',';
  append_json(out, name);
  out += ':';
  append_json(out, text);
}

void append_source(std::string& out, const CounterRow& row) {
  out += '{';
  append_member(out, "driver", row.driver, true);
  append_member(out, "counter", row.counter);
  append_member(out, "interface", to_string(row.interface));
  out += ",\"labels\":{";
  bool first = true;
  for (const Label& label : fixed_labels(row)) {
    append_member(out, label.name, label.value, first);
    first = false;
  }
  out += "},\"scale\":" + scale_text(row) + '}';
}

void append_metric(std::string& out, const MetricDesc& metric, const std::vector<const CounterRow*>& sources) {
  out += '{';
  append_member(out, "name", metric.name, true);
  append_member(out, "type", to_string(metric.type));
  append_member(out, "unit", metric.unit);
  out += ",\"labels\":[";
  bool first = true;
  for (std::string_view label : split(metric.labels)) {
    if (!first) out += ',';
    append_json(out, label);
    first = false;
  }
  out += ']';
  append_member(out, "help", metric.help);
  append_member(out, "collector", metric.collector);
  out += metric.by_default ? ",\"default\":true" : ",\"default\":false";
  append_member(out, "proof", proof_word(metric.proof));
  out += ",\"sources\":[";
  first = true;
  for (const CounterRow* row : sources) {
    out += first ? "\n  " : ",\n  ";
    append_source(out, *row);
    first = false;
  }
  out += "]}";
}

// ---- Markdown ----

struct CollectorText {
  std::string_view name;
  std::string_view text;
};
constexpr CollectorText kCollectors[] = {
    {"rdma_device", "RDMA devices of the host and what they are."},
    {"rdma_port", "State, rate and surroundings of each port, and the carrier of its network device."},
    {"rdma_gid", "Health of the GID table."},
    {"port_counters", "Standard counters of the port, where the driver offers them."},
    {"hw_counters",
     "The driver's own hardware counters of ports and devices. With this collector off, families that it "
     "shares with port_counters keep the part from there."},
    {"cm_messages", "Messages of the kernel's connection manager."},
    {"rdma_resources", "Verbs objects in use."},
    {"qp_counters", "Counter sets that somebody bound to QPs."},
    {"sampler", "Peaks between scrapes, where --sampler.interval switches the sampler on."},
    {"nvme", "NVMe controllers over fabrics, their subsystems and paths, and the RDMA ports that carry them."},
    {"nvmet", "The NVMe target of the host, where configfs shows one."},
    {"nfs_rdma", "NFS over RDMA: mounts of the host and its server."},
    {"iser", "iSER sessions."},
    {"gds", "GPUDirect Storage (nvidia-fs)."},
    {"storage_modules", "Kernel modules that carry storage over RDMA."},
    {"pcie", "The PCI Express path of each RDMA device."},
    {"hwmon", "Temperatures of each RDMA device and its modules."},
    {"devlink", "Health reporters of each RDMA device's driver."},
    {"interrupts", "Completion interrupts of each RDMA device and the CPUs that take them."},
    {"host_path", "What the host's own processing adds: softirqs, the network stack, waiting for a CPU."},
    {"cpu_power", "CPU settings that add latency."},
    {"kernel_settings", "Settings of the kernel and its modules, for comparing hosts."},
    {"kernel_log", "Kernel messages by class; opt-in, since it opens a device node."},
    {"ethtool", "The driver's own statistics of network devices: PFC, pause, physical port, PCIe, this function."},
    {"link", "Link state, pause, FEC and the standard statistics of network devices, by ethtool netlink."},
    {"dcb", "Priority flow control, traffic classes, DSCP map and buffers, by data centre bridging."},
    {"congestion_control", "ECN and its parameters, and defaults of the connection manager."},
    {"netdev", "Network devices below the ports: MTU, state and the traffic of the kernel's stack."},
    {"bond", "Bonds and their members."},
    {"sriov", "Virtual functions and representors."},
    {"qp",
     "QPs by type, state and owner, once a minute. Errors of completions and retries given up are counters of the "
     "port: see `hw_counters`."},
    {"rdma_owners",
     "Verbs objects by who made them, once a minute: which process or kernel user leaks or fills the device."},
    {"odp", "Page faults and invalidations of memory regions with on-demand paging, once a minute."},
    {"hugepages", "Huge pages by size and NUMA node, transparent huge pages, pins."},
    {"processes",
     "Memory limits of the processes that hold an RDMA context, once a minute. RDMA netlink tells who holds one."},
    {"sysv_shm", "System V shared memory and its limits, once a minute."},
    {"cgroups", "Limits and use of the rdma and hugetlb controllers, for cgroups of processes that use RDMA."},
    {"process_cgroups", "Where processes that use RDMA belong, by the path of their cgroup."},
    {"exporter", "The exporter itself: how reading went, and the program."},
};

// Text for a table cell or paragraph.
std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '|' || c == '<') out += '\\';
    out += c;
  }
  return out;
}

// Code in a table cell. The texts hold no backtick.
std::string code(std::string_view text) {
  if (text.empty()) return "";
  std::string out = "`";
  for (char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out + '`';
}

void append_row(std::string& out, std::initializer_list<std::string_view> cells) {
  for (std::string_view text : cells) {
    out += "| ";
    out += text;
    out += ' ';
  }
  out += "|\n";
}

std::string label_text(const CounterRow& row) {
  std::string out;
  for (const Label& label : fixed_labels(row)) {
    if (label.name == "counter") continue;  // the same as the column before
    if (!out.empty()) out += ", ";
    out += std::string(label.name) + '=' + std::string(label.value);
  }
  return out;
}

std::string width_text(const CounterRow& row) {
  std::string out = std::to_string(row.width);
  if (row.at_top == AtTop::kWraps) out += " wraps";
  if (row.at_top == AtTop::kSaturates) out += " sticks";
  return out;
}

std::string note(const CounterRow& row) {
  std::string out(row.why);
  if (row.optional) out += "; counts only where somebody switched it on";
  if (row.fallback) out += "; where the driver has port counters these are used, and this one keeps its own name";
  if (!row.twin_of.empty()) out += "; another spelling of " + std::string(row.twin_of);
  return out;
}

void append_sources_table(std::string& out, const std::vector<const CounterRow*>& sources) {
  out += "| driver | counter | read from | labels | scale | bits | meaning |\n|---|---|---|---|---|---|---|\n";
  for (const CounterRow* row : sources) {
    append_row(out, {row->driver, code(row->counter), cell(to_string(row->interface)), code(label_text(*row)),
                     scale_text(*row), width_text(*row), cell(note(*row))});
  }
  out += '\n';
}

void append_metric_section(std::string& out, const MetricDesc& metric, const std::vector<const CounterRow*>& sources) {
  out += "### " + std::string(metric.name) + "\n\n" + cell(metric.help) + "\n\n";
  if (metric.weight == Weight::kDetail)
    out += "A detail: left out first where a port has more series than allowed.\n\n";
  out += "| type | unit | labels | default | proof |\n|---|---|---|---|---|\n";
  append_row(out, {to_string(metric.type), metric.unit.empty() ? "-" : metric.unit,
                   metric.labels.empty() ? std::string("-") : code(metric.labels), metric.by_default ? "on" : "off",
                   proof_word(metric.proof)});
  out += '\n';
  if (!sources.empty()) append_sources_table(out, sources);
}

// One row for each run of omitted counters that share driver and reason.
void append_omitted(std::string& out) {
  out +=
      "## Left out\n\nCounters that the kernel or a program offers and this version does not publish.\n\n"
      "| driver | reason | counters |\n|---|---|---|\n";
  const std::span<const CounterRow> rows = all_counters();
  for (std::size_t i = 0; i < rows.size();) {
    if (rows[i].metric != nullptr) {
      ++i;
      continue;
    }
    const CounterRow& first = rows[i];
    std::string names;
    for (; i < rows.size() && rows[i].metric == nullptr && rows[i].driver == first.driver && rows[i].why == first.why;
         ++i) {
      if (!names.empty()) names += ", ";
      names += code(rows[i].counter);
    }
    append_row(out, {first.driver, cell(first.why), names});
  }
}

constexpr std::string_view kIntroduction =
    "# Metrics\n\n"
    "This page is made by `roce_exporter metrics-reference --format markdown`; do not edit it.\n\n"
    "Every family names the counters that feed it. A counter that this page does not know is still published, in\n"
    "`roce_driver_counter_total` under the driver's spelling, up to the cardinality limit. What a device does not "
    "offer is\n"
    "absent: a sample of 0 is always a measurement.\n\n"
    "- **default**: part of the page with default flags.\n"
    "- **proof**: *real*, a real kernel showed the value; *simulated*, a simulated RNIC in a virtual machine did; "
    "*made*, a\n"
    "  made tree of files did; *read*, known from the driver's source alone.\n"
    "- **bits**: width of the field in the device and what it does at the top. Wraps are widened while the program "
    "runs; a\n"
    "  field that sticks at its top is reported by `roce_counter_support`.\n"
    "- **scale**: published value = raw value x scale.\n\n";

}  // namespace

std::string metrics_reference_json() {
  Sources sources = sources_by_metric();
  std::string out = "{\"metrics\":[";
  bool first = true;
  for (const MetricDesc& metric : all_metrics()) {
    out += first ? "\n" : ",\n";
    append_metric(out, metric, sources[&metric]);
    first = false;
  }
  out += "\n],\"omitted\":[";
  first = true;
  for (const CounterRow& row : all_counters()) {
    if (row.metric != nullptr) continue;
    out += first ? "\n{" : ",\n{";
    append_member(out, "driver", row.driver, true);
    append_member(out, "counter", row.counter);
    append_member(out, "reason", row.why);
    out += '}';
    first = false;
  }
  out += "\n]}\n";
  return out;
}

std::string metrics_reference_markdown() {
  Sources sources = sources_by_metric();
  std::string out(kIntroduction);
  for (const CollectorText& collector : kCollectors) {
    out += "## Collector " + cell(collector.name) + "\n\n" + cell(collector.text) + "\n\n";
    for (const MetricDesc& metric : all_metrics()) {
      if (metric.collector == collector.name) append_metric_section(out, metric, sources[&metric]);
    }
  }
  out +=
      "## The process\n\nUnder the names that every Prometheus client library uses.\n\n"
      "| name | type | help |\n|---|---|---|\n";
  for (const MetricDesc& metric : process_metrics()) {
    append_row(out, {code(metric.name), to_string(metric.type), cell(metric.help)});
  }
  out +=
      "\n## Names of node_exporter\n\nOnly with `--compat.node-infiniband`, for dashboards and rules that use them. "
      "Switch the infiniband collector of node_exporter off then.\n\n"
      "| name | type | labels | file below ports/N | scale |\n|---|---|---|---|---|\n";
  const std::span<const NodeInfinibandCounter> compat = node_infiniband_counters();
  for (const MetricDesc& metric : node_infiniband_metrics()) {
    std::string file = "-";
    std::string scale = "-";
    for (const NodeInfinibandCounter& counter : compat) {
      if (counter.metric != &metric) continue;
      file = code(std::string(counter.directory) + '/' + std::string(counter.file));
      scale = std::to_string(counter.multiply);
    }
    append_row(out, {code(metric.name), to_string(metric.type), code(metric.labels), file, scale});
  }
  out += '\n';
  append_omitted(out);
  return out;
}

}  // namespace roce
