// SPDX-License-Identifier: Apache-2.0
//
// Flags and configuration file. The first byte chooses: even, the rest is a YAML file; odd, the rest is a command line
// with one argument a line. Whatever comes in, a refusal is one printable line that begins as promised.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exporter/config/options.h"
#include "tests/fuzz/require.h"

namespace {

const std::vector<roce::CollectorChoice>& collectors() {
  static const std::vector<roce::CollectorChoice> all{{"device", true, "Devices."}, {"qp", false, "Queue pairs."}};
  return all;
}

void require_one_line(std::string_view line, std::string_view beginning) {
  require(line.starts_with(beginning), line);
  for (const char c : line) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7F, line);
}

void read_file(std::string_view text) {
  const auto options = roce::apply_config_text(text, "fuzz.yml", {}, {}, collectors());
  if (!options) require_one_line(options.error(), "fuzz.yml:");
}

void read_command_line(std::string_view text) {
  std::vector<std::string> arguments{"roce_exporter"};
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    arguments.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  const auto options = roce::parse_command_line(static_cast<int>(argv.size()), argv.data(), collectors());
  if (options || options.error().code == 0) return;
  std::string_view line = options.error().err;
  require((options.error().code == 2 || options.error().code == 3) && line.ends_with('\n'), line);
  line.remove_suffix(1);
  require_one_line(line, "roce_exporter: ");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    read_file(text);
  } else {
    read_command_line(text);
  }
  return 0;
}
