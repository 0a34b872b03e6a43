// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/web_config.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <exception>
#include <span>

#include "exporter/config/document.h"
#include "exporter/config/text.h"
#include "exporter/config/yaml_tree.h"
#include "exporter/kernel/files.h"
#include "exporter/web/tls.h"

namespace roce::web {
namespace {

using config::either;
using config::one_line;
using config::Problem;
using config::shown;
using config::ticked;
using config::YamlNode;

constexpr std::size_t kMaxFile = std::size_t{1} << 20;
constexpr std::size_t kMaxUsers = 1000;
constexpr int kMaxCost = 15;  // of bcrypt: more than a second for one password

constexpr std::string_view kTop[] = {"tls_server_config", "http_server_config", "basic_auth_users"};
constexpr std::string_view kTls[] = {"cert_file",
                                     "key_file",
                                     "cert",
                                     "key",
                                     "client_auth_type",
                                     "client_ca_file",
                                     "client_ca",
                                     "min_version",
                                     "max_version",
                                     "cipher_suites",
                                     "curve_preferences",
                                     "prefer_server_cipher_suites",
                                     "client_allowed_sans"};
constexpr std::string_view kHttp[] = {"headers", "http2"};
constexpr std::string_view kClientAuth[] = {"NoClientCert", "RequestClientCert", "RequireAnyClientCert",
                                            "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"};
constexpr std::string_view kVersions[] = {"TLS12", "TLS13"};
constexpr std::pair<std::string_view, std::string_view> kCurves[] = {
    {"CurveP256", "P-256"}, {"CurveP384", "P-384"}, {"CurveP521", "P-521"}, {"X25519", "X25519"}};

struct Header {
  std::string_view name;
  std::vector<std::string_view> values;  // empty: any
};
const std::vector<Header>& known_headers() {
  static const std::vector<Header> kHeaders = {{"Strict-Transport-Security", {}},
                                               {"X-Content-Type-Options", {"nosniff"}},
                                               {"X-Frame-Options", {"deny", "sameorigin"}},
                                               {"X-XSS-Protection", {}},
                                               {"Content-Security-Policy", {}}};
  return kHeaders;
}

tl::expected<std::string, std::string> read_regular_file(const std::string& path) {
  const auto failed = [](int err) {
    char buffer[128];
    return tl::unexpected(fmt::format("no way to read it ({})", strerror_r(err, buffer, sizeof buffer)));
  };
  // Opening some devices has effects of its own, so the kind is asked for first.
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return failed(errno);
  if (!S_ISREG(info.st_mode)) return tl::unexpected(std::string("no regular file"));
  auto text = read_file(path, kMaxFile);
  if (text) return std::move(*text);
  if (text.error().kind == ErrorKind::kMalformed) return tl::unexpected(std::string("more than 1 MiB"));
  return failed(text.error().err);
}

// What is wrong with a bcrypt hash, as the end of "found ...".
std::string bad_hash(std::string_view hash) {
  constexpr std::string_view kAlphabet = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const bool prefix = hash.size() > 6 &&
                      (hash.starts_with("$2a$") || hash.starts_with("$2b$") || hash.starts_with("$2y$")) &&
                      digit(hash[4]) && digit(hash[5]) && hash[6] == '$';
  // The hash itself is a secret of sorts: it is never repeated in a message.
  if (!prefix || hash.size() != 60 || hash.substr(7).find_first_not_of(kAlphabet) != std::string_view::npos)
    return "something else";
  const int cost = (hash[4] - '0') * 10 + (hash[5] - '0');
  if (cost < 4 || cost > kMaxCost) return fmt::format("the cost {}", cost);
  return {};
}

class Reader {
 public:
  Reader(std::string_view file, const ReadFile& read, std::vector<std::string>* files) : read_(read), files_(files) {
    const std::size_t slash = file.rfind('/');
    if (slash != std::string_view::npos) folder_ = file.substr(0, slash + 1);
  }

  void read(const YamlNode& root) {
    each(root, "", kTop, [&](const std::string& name, const YamlNode& value) {
      if (name == "basic_auth_users") return read_users(value);
      if (!is_mapping(name, value)) return;
      if (name == "tls_server_config")
        read_tls(value);
      else
        read_http(value);
    });
    if (!config_.users.empty() && config_.tls == nullptr && findings_.empty())
      config_.remarks.emplace_back("users without TLS: their passwords travel in the clear");
  }

  const config::Findings& findings() const { return findings_; }
  WebConfig take() { return std::move(config_); }

 private:
  void add(int line, const std::string& key, Problem problem) { findings_.add(line, key, std::move(problem)); }

  bool is_mapping(const std::string& name, const YamlNode& value) {
    if (value.kind == YamlNode::Kind::kMapping) return true;
    if (value.kind != YamlNode::Kind::kNull) add(value.line, name, {shown(value), "a mapping", {}});
    return false;
  }

  // Calls `take(name, value)` for each known key, `name` with the section before it.
  template <class Take>
  void each(const YamlNode& mapping, const std::string& section, std::span<const std::string_view> allowed, Take take) {
    config::walk_mapping(findings_, section, mapping, either(allowed), [&](const YamlNode& key, const YamlNode& value) {
      const std::string name = section.empty() ? key.text : section + "." + key.text;
      if (std::find(allowed.begin(), allowed.end(), key.text) != allowed.end()) return take(name, value);
      const std::vector<std::string> names(allowed.begin(), allowed.end());
      findings_.add(key.line, name, {"an unknown key", either(allowed), config::nearest(key.text, names)});
    });
  }

  bool text(const std::string& name, const YamlNode& value, std::string_view allowed, std::string& out) {
    if (value.kind != YamlNode::Kind::kScalar || value.text.empty()) {
      add(value.line, name, {shown(value), std::string(allowed), {}});
      return false;
    }
    out = value.text;
    return true;
  }

  bool one_of(const std::string& name, const YamlNode& value, std::span<const std::string_view> allowed,
              std::size_t& out) {
    std::string found;
    if (!text(name, value, either(allowed), found)) return false;
    const auto place = std::find(allowed.begin(), allowed.end(), found);
    out = static_cast<std::size_t>(place - allowed.begin());
    if (place != allowed.end()) return true;
    const std::vector<std::string> names(allowed.begin(), allowed.end());
    add(value.line, name, {ticked(found), either(allowed), config::nearest(found, names)});
    return false;
  }

  bool truth(const std::string& name, const YamlNode& value, bool& out) {
    if (value.kind == YamlNode::Kind::kScalar && value.plain && (value.text == "true" || value.text == "false")) {
      out = value.text == "true";
      return true;
    }
    add(value.line, name, {shown(value), "true or false", {}});
    return false;
  }

  template <class Take>
  void list(const std::string& name, const YamlNode& value, std::string_view allowed, Take take) {
    if (value.kind != YamlNode::Kind::kList || value.items.empty())
      return add(value.line, name,
                 {value.kind == YamlNode::Kind::kList ? "an empty list" : shown(value),
                  fmt::format("a list of {}", allowed),
                  {}});
    for (const YamlNode& item : value.items) {
      std::string entry;
      if (text(name, item, allowed, entry)) take(item, entry);
    }
  }

  // A PEM text, from a file or from the configuration itself; `line` is where it is named, for what OpenSSL finds.
  struct Pem {
    std::string name, text;
    int line = 0;
    bool failed = false;
    bool given() const { return line != 0; }
  };
  void pem_file(const std::string& name, const YamlNode& value, Pem& out) {
    std::string path;
    if (!begin(name, value, out)) return;
    out.failed = !text(name, value, "a file", path);
    if (out.failed) return;
    if (path.front() != '/') path = folder_ + path;
    if (files_ != nullptr) files_->push_back(path);
    auto content = read_(path);
    if (content) {
      out.text = std::move(*content);
    } else {
      out.failed = true;
      add(value.line, name, {fmt::format("{} ({})", content.error(), one_line(path, 200)), "a file in PEM", {}});
    }
  }
  void pem_text(const std::string& name, const YamlNode& value, Pem& out) {
    if (begin(name, value, out)) out.failed = !text(name, value, "PEM", out.text);
  }
  bool begin(const std::string& name, const YamlNode& value, Pem& out) {
    if (out.given()) {
      add(value.line, name, {fmt::format("it beside {}", ticked(out.name)), "one of them", {}});
      return false;
    }
    out.name = name;
    out.line = value.line;
    return true;
  }

  void read_tls(const YamlNode& mapping) {
    const std::string section = "tls_server_config";
    TlsSettings settings;
    Pem certificate, key, client_ca;
    std::size_t auth = 0, lowest = 0, highest = 1;
    int auth_line = mapping.line, version_line = mapping.line, ciphers_line = mapping.line, curves_line = mapping.line;
    int sans_line = mapping.line;
    each(mapping, section, kTls, [&](const std::string& name, const YamlNode& value) {
      const std::string_view leaf = std::string_view(name).substr(section.size() + 1);
      if (leaf == "cert_file") return pem_file(name, value, certificate);
      if (leaf == "cert") return pem_text(name, value, certificate);
      if (leaf == "key_file") return pem_file(name, value, key);
      if (leaf == "key") return pem_text(name, value, key);
      if (leaf == "client_ca_file") return pem_file(name, value, client_ca);
      if (leaf == "client_ca") return pem_text(name, value, client_ca);
      if (leaf == "client_auth_type") {
        auth_line = value.line;
        one_of(name, value, kClientAuth, auth);
      } else if (leaf == "min_version") {
        version_line = value.line;
        one_of(name, value, kVersions, lowest);
      } else if (leaf == "max_version") {
        version_line = value.line;
        one_of(name, value, kVersions, highest);
      } else if (leaf == "cipher_suites") {
        ciphers_line = value.line;
        list(name, value, "cipher suites", [&](const YamlNode& item, const std::string& entry) {
          if (!known_cipher(entry))
            add(item.line, name,
                {ticked(entry), "a suite of TLS 1.2 or 1.3 with forward secrecy, by its IANA name", {}});
          settings.ciphers.push_back(entry);
        });
      } else if (leaf == "curve_preferences") {
        curves_line = value.line;
        list(name, value, "curves", [&](const YamlNode& item, const std::string& entry) {
          for (const auto& [go, openssl] : kCurves)
            if (entry == go) return settings.groups.emplace_back(openssl), void();
          add(item.line, name, {ticked(entry), "CurveP256, CurveP384, CurveP521 or X25519", {}});
        });
      } else if (leaf == "prefer_server_cipher_suites") {
        truth(name, value, settings.server_chooses);
      } else {
        sans_line = value.line;
        list(name, value, "names",
             [&](const YamlNode&, const std::string& entry) { settings.allowed_sans.push_back(entry); });
      }
    });
    if (mapping.members.empty()) return;  // as in the toolkit: an empty section is none
    if (!certificate.given())
      add(mapping.line, section, {"no cert_file", "cert_file and key_file", {}});
    else if (!key.given())
      add(mapping.line, section, {"no key_file", "cert_file and key_file", {}});
    settings.client_auth = static_cast<ClientAuth>(auth);
    const bool verifies =
        settings.client_auth == ClientAuth::kVerifyIfGiven || settings.client_auth == ClientAuth::kRequireAndVerify;
    if (verifies && !client_ca.given())
      add(auth_line, section + ".client_auth_type",
          {fmt::format("{} without client_ca_file", ticked(kClientAuth[auth])),
           "both, or a type that checks nothing",
           {}});
    if (!verifies && client_ca.given() && auth == 0)
      add(client_ca.line, client_ca.name, {"it without client_auth_type", "both", {}});
    if (!verifies && !settings.allowed_sans.empty())
      add(sans_line, section + ".client_allowed_sans",
          {"it where certificates are not checked",
           "it with VerifyClientCertIfGiven or RequireAndVerifyClientCert",
           {}});
    if (lowest > highest)
      add(version_line, section + ".min_version", {"min_version above max_version", "TLS12 to TLS13", {}});
    settings.tls13_only = lowest == 1;
    settings.tls12_only = highest == 0;
    if (!findings_.empty() || certificate.failed || key.failed || client_ca.failed) return;

    settings.certificate = std::move(certificate.text);
    settings.key = std::move(key.text);
    settings.client_ca = std::move(client_ca.text);
    auto made = make_tls_context(settings);
    if (!made) {
      using Part = TlsProblem::Part;
      const auto [line, name] = [&]() -> std::pair<int, std::string> {
        switch (made.error().part) {
          case Part::kCertificate:
            return {certificate.line, certificate.name};
          case Part::kKey:
            return {key.line, key.name};
          case Part::kClientCa:
            return {client_ca.line, client_ca.name};
          case Part::kCiphers:
            return {ciphers_line, section + ".cipher_suites"};
          case Part::kGroups:
            return {curves_line, section + ".curve_preferences"};
          case Part::kOther:
            break;
        }
        return {mapping.line, section};
      }();
      return add(line, name, {made.error().found, "what TLS can be served with", {}});
    }
    config_.tls = std::move(made->context);
    config_.certificate_expires = made->expires;
    config_.verifies_clients = verifies;
    if (made->expires != 0 && made->expires < static_cast<double>(std::time(nullptr)))
      config_.remarks.emplace_back("the certificate has expired");
    if (!verifies && auth != 0)
      config_.remarks.push_back(
          fmt::format("client certificates are asked for, but not checked ({})", kClientAuth[auth]));
  }

  void read_http(const YamlNode& mapping) {
    const std::string section = "http_server_config";
    each(mapping, section, kHttp, [&](const std::string& name, const YamlNode& value) {
      if (name.ends_with(".http2")) {
        bool wanted = false;
        if (truth(name, value, wanted) && wanted)
          config_.remarks.emplace_back("http2 has no effect: HTTP/1.1 is served");
        return;
      }
      std::vector<std::string_view> names;
      for (const Header& header : known_headers()) names.push_back(header.name);
      if (!is_mapping(name, value)) return;
      each(value, name, names, [&](const std::string& key, const YamlNode& content) {
        read_header(key, key.substr(name.size() + 1), content);
      });
    });
  }

  void read_header(const std::string& key, const std::string& name, const YamlNode& content) {
    const auto& headers = known_headers();
    const auto header = std::find_if(headers.begin(), headers.end(), [&](const Header& h) { return h.name == name; });
    std::string value;
    if (!text(key, content, "the header's value", value)) return;
    if (value.find_first_of("\r\n") != std::string::npos || value.size() > 4096)
      return add(content.line, key, {ticked(value), "one line of at most 4096 bytes", {}});
    if (!header->values.empty() &&
        std::find(header->values.begin(), header->values.end(), value) == header->values.end())
      return add(content.line, key, {ticked(value), either(header->values), {}});
    config_.headers.emplace_back(name, value);
  }

  void read_users(const YamlNode& mapping) {
    const std::string section = "basic_auth_users";
    if (!is_mapping(section, mapping)) return;
    constexpr std::string_view kNames = "names without a colon";
    config::walk_mapping(
        findings_, section, mapping, std::string(kNames), [&](const YamlNode& key, const YamlNode& value) {
          if (key.text.empty() || key.text.find(':') != std::string::npos)
            return add(key.line, section, {ticked(key.text) + " as a name", std::string(kNames), {}});
          const std::string name = section + "." + key.text;
          const std::string wrong = value.kind == YamlNode::Kind::kScalar ? bad_hash(value.text) : shown(value);
          if (!wrong.empty()) {
            add(value.line, name,
                {wrong, fmt::format("a bcrypt hash ($2a$, $2b$ or $2y$) of cost 4 to {}", kMaxCost), {}});
          } else if (config_.users.size() == kMaxUsers) {
            add(key.line, name, {fmt::format("more than {} users", kMaxUsers), "as many", {}});
          } else {
            config_.users.push_back({key.text, value.text});
          }
        });
  }

  const ReadFile& read_;
  std::vector<std::string>* files_;
  std::string folder_;
  WebConfig config_;
  config::Findings findings_;
};

}  // namespace

tl::expected<WebConfig, std::string> parse_web_config(std::string_view text, const std::string& file,
                                                      const ReadFile& read, std::vector<std::string>* files) {
  const std::string name = one_line(file, 4096);
  try {
    const auto root = config::parse_yaml(text);
    if (!root) return tl::unexpected(fmt::format("{}:{}: {}", name, root.error().line, root.error().text));
    if (root->kind != YamlNode::Kind::kMapping && root->kind != YamlNode::Kind::kNull)
      return tl::unexpected(
          fmt::format("{}:{}: found {}, allowed a mapping with {}", name, root->line, shown(*root), either(kTop)));
    Reader reader(file, read, files);
    reader.read(*root);
    if (!reader.findings().empty()) return tl::unexpected(fmt::format("{}:{}", name, reader.findings().report()));
    return reader.take();
  } catch (const std::exception& error) {
    return tl::unexpected(fmt::format("{}: {}", name, one_line(error.what(), 200)));
  }
}

tl::expected<WebConfig, std::string> load_web_config(const std::string& file, std::vector<std::string>* files) {
  const auto text = read_regular_file(file);
  if (!text)
    return tl::unexpected(fmt::format("{}: found {}, allowed a YAML file", one_line(file, 4096), text.error()));
  return parse_web_config(*text, file, read_regular_file, files);
}

std::optional<Exit> check_web_config(const std::string& file) {
  const auto text = read_regular_file(file);
  if (!text) return std::nullopt;
  // By its lines, so that one which is no YAML is told by its own rules too.
  bool own = false;
  for (std::string_view rest = *text; !rest.empty() && !own;) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    own = std::any_of(std::begin(kTop), std::end(kTop), [&](std::string_view key) {
      return line.starts_with(key) && line.substr(key.size()).starts_with(":");
    });
  }
  if (!own) return std::nullopt;
  const auto config = parse_web_config(*text, file, read_regular_file, nullptr);
  if (!config) return Exit{2, {}, config.error() + "\n"};
  const std::string name = one_line(file, 4096);
  std::string out = name + ": ok (web configuration)\n";
  for (const std::string& remark : config->remarks) out += fmt::format("{}: {}\n", name, remark);
  return Exit{0, std::move(out), {}};
}

}  // namespace roce::web
