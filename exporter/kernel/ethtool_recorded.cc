// SPDX-License-Identifier: Apache-2.0
#include "exporter/kernel/ethtool_recorded.h"

#include <algorithm>
#include <utility>

#include "exporter/base/parse.h"
#include "exporter/kernel/ethtool_messages.h"
#include "exporter/kernel/files.h"

namespace roce {
namespace {

constexpr std::size_t kMaxFileSize = std::size_t{16} << 20;

class RecordedEthtool final : public EthtoolSource {
 public:
  explicit RecordedEthtool(std::string dir) : dir_(std::move(dir)) {}

  Result<std::vector<NamedValue>> statistics(const std::string& netdev) override {
    auto text = read(netdev, "ethtool_S.txt");
    if (!text && text.error().kind == ErrorKind::kNotRecorded && is_only(netdev)) text = read("", "ethtool_S.txt");
    ROCE_TRY(const std::string all, std::move(text));
    return named(parse_ethtool_statistics_text(all), netdev);
  }
  Result<std::string> driver(const std::string& netdev) override {
    ROCE_TRY(const std::string text, read(netdev, "driver"));
    if (trim(text).empty()) return fail(ErrorKind::kNotRecorded, netdev + ": driver");
    return std::string(trim(text));
  }
  Result<EthtoolLink> link(const std::string& netdev, bool) override {
    ROCE_TRY(const std::string text, read(netdev, "link.json"));
    return named(parse_ethtool_link_json(text), netdev);
  }
  Result<EthtoolPause> pause(const std::string& netdev) override {
    ROCE_TRY(const std::string text, read(netdev, "pause.json"));
    return named(parse_ethtool_pause_json(text), netdev);
  }
  Result<EthtoolFec> fec(const std::string& netdev) override {
    ROCE_TRY(const std::string text, read(netdev, "fec.json"));
    return named(parse_ethtool_fec_json(text), netdev);
  }
  Result<std::vector<NamedValue>> standard_statistics(const std::string& netdev) override {
    ROCE_TRY(const std::string text, read(netdev, "stats.json"));
    return named(parse_ethtool_standard_statistics_json(text), netdev);
  }

 private:
  template <class T>
  static Result<T> named(Result<T> result, const std::string& netdev) {
    if (!result && !netdev.empty()) result.error().object = netdev + ": " + result.error().object;
    return result;
  }

  // Without a name: the file in the folder itself.
  Result<std::string> read(const std::string& netdev, const std::string& file) const {
    const std::string path = dir_ + "/" + (netdev.empty() ? "" : "netdev/" + netdev + "/") + file;
    auto text = read_file(path, kMaxFileSize);
    if (!text && text.error().kind == ErrorKind::kAbsent) return fail(ErrorKind::kNotRecorded, path);
    return text;
  }

  // Whether the recording knows of no other network device than this one.
  bool is_only(const std::string& netdev) const {
    if (exists(dir_ + "/netdev")) return false;
    const auto names = list_directory(dir_ + "/sys/class/net").value_or(names_of_proc());
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
      return name == netdev || name == "lo" || name == "bonding_masters";
    });
  }

  // A recording of counters alone may name its devices there.
  std::vector<std::string> names_of_proc() const {
    std::vector<std::string> names;
    const std::string text = read_file(dir_ + "/proc/net/dev", kMaxFileSize).value_or("");
    for (std::string_view rest = text; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      if (const auto colon = line.find(':'); colon != std::string_view::npos)
        names.emplace_back(trim(line.substr(0, colon)));
    }
    return names;
  }

  const std::string dir_;
};

}  // namespace

Result<std::unique_ptr<EthtoolSource>> open_ethtool_recording(const std::string& dir) {
  ROCE_TRY_VOID(list_directory(dir));
  return std::make_unique<RecordedEthtool>(dir);
}

}  // namespace roce
