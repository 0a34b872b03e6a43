// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/nvidia_fs.h"

#include <set>
#include <utility>

#include "exporter/base/parse.h"

namespace roce {
namespace {

constexpr std::size_t kMaxValues = 4096;

bool blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Where " : " stands, which ends a group's name; names of GPUs hold colons of their own.
std::size_t end_of_group(std::string_view line) {
  for (std::size_t i = 1; i < line.size(); ++i)
    if (line[i] == ':' && blank(line[i - 1]) && (i + 1 == line.size() || blank(line[i + 1]))) return i;
  return std::string_view::npos;
}

// "Sparse Reads" as one word.
std::string joined(std::string_view name) {
  std::string out(trim(name));
  for (char& c : out)
    if (blank(c)) c = '_';
  return out;
}

std::string_view without_unit(std::string_view key) { return key.substr(0, key.find('(')); }

std::optional<bool> switched(std::string_view text) {
  text = trim(text);
  if (text.starts_with("Enabled")) return true;
  if (text.starts_with("Disabled")) return false;
  return std::nullopt;
}

class Parser {
 public:
  NvidiaFsStatistics parse(std::string_view text) {
    while (!text.empty()) take(take_line(text));
    return std::move(statistics_);
  }

 private:
  void take(std::string_view line) {
    const auto group = end_of_group(line);
    if (group != std::string_view::npos) {
      begin(trim(line.substr(0, group)));
      pairs(line.substr(group + 1));
    } else if (line.starts_with("NVFS Driver(version:")) {
      std::string_view rest = line.substr(20);
      statistics_.version = trim(rest.substr(0, rest.find(')')));
      for (char& c : statistics_.version)
        if (c == ':') c = '.';
    } else if (line.starts_with("IO stats:")) {
      statistics_.io_statistics = switched(line.substr(9));
      const auto peer = line.find("peer IO stats:");
      if (peer != std::string_view::npos) statistics_.peer_statistics = switched(line.substr(peer + 14));
    } else if (line.starts_with("Active Shadow-Buffer")) {
      const auto colon = line.find(':');
      if (colon == std::string_view::npos) return;
      if (const auto value = parse_u64(line.substr(colon + 1))) add("Active_Shadow-Buffer", "", *value);
    } else if (!line.empty() && blank(line.front())) {
      pairs(line);
    } else {
      group_.clear();
    }
  }

  void begin(std::string_view name) {
    gpu_.clear();
    if (name.starts_with("GPU ")) {
      name.remove_prefix(4);
      const std::string_view address = take_word(name);
      group_ = "GPU";
      gpu_ = address;
    } else {
      group_ = joined(name);
    }
  }

  void pairs(std::string_view line) {
    if (group_.empty()) return;
    while (!line.empty()) {
      const std::string_view word = take_word(line);
      const auto equals = word.find('=');
      if (equals == std::string_view::npos) continue;
      const std::string_view key = without_unit(word.substr(0, equals));
      const auto value = parse_u64(word.substr(equals + 1));
      if (!key.empty() && value) add(group_ + "/" + std::string(key), gpu_, *value);
    }
  }

  void add(std::string counter, std::string_view gpu, std::uint64_t value) {
    if (statistics_.values.size() >= kMaxValues) return;
    if (!seen_.emplace(counter, gpu).second) return;
    statistics_.values.push_back({std::move(counter), std::string(gpu), value});
  }

  NvidiaFsStatistics statistics_;
  std::string group_;
  std::string gpu_;
  std::set<std::pair<std::string, std::string>> seen_;
};

}  // namespace

NvidiaFsStatistics parse_nvidia_fs_statistics(std::string_view text) { return Parser().parse(text); }

}  // namespace roce
