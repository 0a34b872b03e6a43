// SPDX-License-Identifier: Apache-2.0
//
// Sends the series of a fleet to a Prometheus by remote write, from `hours` ago until `ahead` seconds from now, so that
// rules evaluated in these seconds find a fleet that lives. A fleet is one node's series again and again:
//   usage: fleet_writer TEMPLATE URL NODES HOURS AHEAD STEP
// TEMPLATE has one series a line: value at the start, growth a second, then label names and values in turn, sorted by
// name, all separated by tabs. In values, @0 is the node and @K the K-th node after it.
// Prints the samples sent and the seconds that it took.
#include <curl/curl.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::system_clock;

// As few batches as a Prometheus takes without losing its place: older samples than an hour before the newest one are
// refused.
constexpr std::int64_t kSliceSeconds = 600;

struct Series {
  double value;
  double growth;
  std::vector<std::pair<std::string, std::string>> labels;
};

std::vector<std::string> split(const std::string& line, char by) {
  std::vector<std::string> parts(1);
  for (const char c : line) {
    if (c == by)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::vector<Series> read_template(const char* path) {
  std::vector<Series> all;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto parts = split(line, '\t');
    Series& series = all.emplace_back(Series{std::stod(parts.at(0)), std::stod(parts.at(1)), {}});
    for (std::size_t i = 2; i + 1 < parts.size(); i += 2) series.labels.emplace_back(parts[i], parts[i + 1]);
  }
  return all;
}

std::string node_name(std::size_t node) {
  char text[32];
  std::snprintf(text, sizeof text, "node%05zu", node);
  return text;
}

// The value with @K replaced.
std::string of_node(const std::string& value, std::size_t node, std::size_t nodes) {
  const std::size_t at = value.find('@');
  if (at == std::string::npos) return value;
  char* end = nullptr;
  const std::size_t distance = std::strtoul(value.c_str() + at + 1, &end, 10);
  return value.substr(0, at) + node_name((node + distance) % nodes) + end;
}

// WriteRequest{ repeated TimeSeries{ repeated Label{name,value}=1, repeated Sample{value,timestamp}=2 }=1 }
std::string write_request(const std::vector<Series>& fleet, std::size_t node, std::size_t nodes, std::int64_t origin,
                          std::int64_t begin, std::int64_t end, std::int64_t step, std::size_t& samples) {
  std::string request;
  protozero::pbf_writer out(request);
  for (const Series& series : fleet) {
    protozero::pbf_writer one(out, 1);
    for (const auto& [name, value] : series.labels) {
      protozero::pbf_writer label(one, 1);
      label.add_string(1, name);
      label.add_string(2, of_node(value, node, nodes));
    }
    // Nodes are not in step: each counts at a speed of its own, around the template's.
    const double growth = series.growth * (0.5 + static_cast<double>(node % 101) / 101);
    for (std::int64_t at = begin; at < end; at += step) {
      protozero::pbf_writer sample(one, 2);
      sample.add_double(1, series.value + std::floor(growth * static_cast<double>(at - origin)));
      sample.add_int64(2, at * 1000);
      ++samples;
    }
  }
  return request;
}

// Snappy's block format without compression: the length, then literals. Its compression is not what is measured.
std::string as_snappy(std::string_view data) {
  std::string out;
  std::size_t left = data.size();
  for (; left >= 0x80; left >>= 7U) out += static_cast<char>((left & 0x7FU) | 0x80U);
  out += static_cast<char>(left);
  while (!data.empty()) {
    const std::string_view literal = data.substr(0, 0x10000);
    const std::size_t n = literal.size() - 1;
    out += static_cast<char>(61 << 2);  // a literal whose length less one is in two bytes
    out += static_cast<char>(n & 0xFFU);
    out += static_cast<char>(n >> 8U);
    out += literal;
    data.remove_prefix(literal.size());
  }
  return out;
}

class Receiver {
 public:
  explicit Receiver(const char* url) : curl_(curl_easy_init(), curl_easy_cleanup) {
    for (const char* header : {"Content-Type: application/x-protobuf", "Content-Encoding: snappy",
                               "X-Prometheus-Remote-Write-Version: 0.1.0", "Expect:"})
      headers_.reset(curl_slist_append(headers_.release(), header));
    curl_easy_setopt(curl_.get(), CURLOPT_URL, url);
    curl_easy_setopt(curl_.get(), CURLOPT_HTTPHEADER, headers_.get());
    curl_easy_setopt(curl_.get(), CURLOPT_NOPROXY, "*");
  }
  bool send(const std::string& body) {
    curl_easy_setopt(curl_.get(), CURLOPT_POSTFIELDS, body.data());
    curl_easy_setopt(curl_.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    long status = 0;
    const CURLcode done = curl_easy_perform(curl_.get());
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    if (done == CURLE_OK && status / 100 == 2) return true;
    std::fprintf(stderr, "\nfleet_writer: %s, status %ld\n", curl_easy_strerror(done), status);
    return false;
  }

 private:
  std::unique_ptr<CURL, void (*)(CURL*)> curl_;
  std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers_{nullptr, curl_slist_free_all};
};

std::int64_t now() { return std::chrono::duration_cast<std::chrono::seconds>(Clock::now().time_since_epoch()).count(); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    std::fprintf(stderr, "usage: fleet_writer TEMPLATE URL NODES HOURS AHEAD STEP\n");
    return 2;
  }
  const auto fleet = read_template(argv[1]);
  const auto nodes = static_cast<std::size_t>(std::atoll(argv[3]));
  const std::int64_t ahead = std::atoll(argv[5]);
  const std::int64_t step = std::atoll(argv[6]);
  const std::int64_t started = now();
  const std::int64_t origin = (started - static_cast<std::int64_t>(std::atof(argv[4]) * 3600)) / step * step;
  Receiver receiver(argv[2]);
  std::size_t samples = 0;
  // What is sent has to overtake the clock.
  for (std::int64_t begin = origin; begin < now() + ahead; begin += kSliceSeconds)
    for (std::size_t node = 0; node < nodes; ++node)
      if (!receiver.send(
              as_snappy(write_request(fleet, node, nodes, origin, begin, begin + kSliceSeconds, step, samples))))
        return 1;
  std::printf("%zu samples %lld seconds\n", samples, static_cast<long long>(now() - started));
  return 0;
}
