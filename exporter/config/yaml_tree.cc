// SPDX-License-Identifier: Apache-2.0
#include "exporter/config/yaml_tree.h"

#include <fmt/format.h>
#include <libfyaml.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "exporter/config/text.h"

namespace roce::config {
namespace {

constexpr std::size_t kMaxDepth = 16;
constexpr std::size_t kMaxNodes = 20000;

// What is settled before the parser sees a byte: the encoding, and the indentation by tabs that YAML forbids.
std::optional<YamlError> check_text(std::string_view text) {
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    return YamlError{1, "found UTF-16 text, allowed UTF-8"};
  }
  int line = 1;
  bool indentation = true;
  std::size_t tab = std::string_view::npos;  // a tab in the indentation of this line
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    const char c = text[i];
    if (length == 0) {
      return YamlError{line, fmt::format("found the byte 0x{:02x}, allowed UTF-8", static_cast<unsigned char>(c))};
    }
    if (length == 1) {
      const auto byte = static_cast<unsigned char>(c);
      if ((byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7F) {
        return YamlError{line, fmt::format("found the control byte 0x{:02x}, allowed text", byte)};
      }
    }
    if (c == '\n') {
      ++line;
      indentation = true;
      tab = std::string_view::npos;
    } else if (indentation && c == '\t') {
      tab = i;
    } else if (indentation && c != ' ' && c != '\r') {
      if (tab != std::string_view::npos && c != '#') {
        return YamlError{line, "found a tab in the indentation, allowed blanks"};
      }
      indentation = false;
    }
    i += length;
  }
  return {};
}

struct ParserDeleter {
  void operator()(fy_parser* parser) const { fy_parser_destroy(parser); }
};
struct DiagDeleter {
  void operator()(fy_diag* diag) const { fy_diag_destroy(diag); }
};

std::string token_text(fy_token* token) {
  std::size_t length = 0;
  const char* text = token == nullptr ? nullptr : fy_token_get_text(token, &length);
  return text == nullptr ? std::string() : std::string(text, length);
}

class Builder {
 public:
  explicit Builder(fy_parser* parser, fy_diag* diag) : parser_(parser), diag_(diag) {}

  tl::expected<YamlNode, YamlError> build() {
    for (;;) {
      fy_event* event = fy_parser_parse(parser_);
      if (event == nullptr) return tl::unexpected(syntax_error());
      if (const fy_mark* mark = fy_event_start_mark(event)) line_ = std::max(line_, mark->line + 1);
      const bool end = event->type == FYET_STREAM_END;
      auto error = take(event);
      fy_parser_event_free(parser_, event);
      if (error) return tl::unexpected(std::move(*error));
      if (end) return std::move(root_);
    }
  }

 private:
  YamlError error(std::string text) const { return {line_, std::move(text)}; }

  std::optional<YamlError> take(fy_event* event) {
    switch (event->type) {
      case FYET_DOCUMENT_START:
        if (++documents_ > 1) return error("found a second document, allowed one");
        return {};
      case FYET_ALIAS:
        return error(fmt::format("found the alias {}, allowed values written out",
                                 ticked("*" + token_text(event->alias.anchor))));
      case FYET_SCALAR: {
        if (auto problem = refuse_decoration(event->scalar.tag, event->scalar.anchor)) return problem;
        YamlNode node;
        node.plain = event->scalar.value == nullptr || fy_token_scalar_style(event->scalar.value) == FYSS_PLAIN;
        node.text = token_text(event->scalar.value);
        const bool null = node.plain && (node.text.empty() || node.text == "~" || node.text == "null");
        node.kind = null ? YamlNode::Kind::kNull : YamlNode::Kind::kScalar;
        return add(std::move(node));
      }
      case FYET_SEQUENCE_START:
        return open(YamlNode::Kind::kList, event->sequence_start.tag, event->sequence_start.anchor);
      case FYET_MAPPING_START:
        return open(YamlNode::Kind::kMapping, event->mapping_start.tag, event->mapping_start.anchor);
      case FYET_SEQUENCE_END:
      case FYET_MAPPING_END: {
        if (open_.empty()) return error("found an end without a beginning, allowed YAML");
        Open done = std::move(open_.back());
        open_.pop_back();
        return put(std::move(done.node));
      }
      default:
        return {};
    }
  }

  std::optional<YamlError> refuse_decoration(fy_token* tag, fy_token* anchor) const {
    if (tag != nullptr)
      return error(fmt::format("found the tag {}, allowed values without one", ticked(token_text(tag))));
    if (anchor != nullptr) {
      return error(fmt::format("found the anchor {}, allowed values written out", ticked("&" + token_text(anchor))));
    }
    return {};
  }

  std::optional<YamlError> open(YamlNode::Kind kind, fy_token* tag, fy_token* anchor) {
    if (auto problem = refuse_decoration(tag, anchor)) return problem;
    if (open_.size() >= kMaxDepth)
      return error(fmt::format("found more than {} levels of nesting, allowed fewer", kMaxDepth));
    open_.emplace_back();
    open_.back().node.kind = kind;
    open_.back().node.line = line_;
    return {};
  }

  std::optional<YamlError> add(YamlNode node) {
    node.line = line_;
    return put(std::move(node));
  }

  // Hands a finished node to the one it stands in.
  std::optional<YamlError> put(YamlNode node) {
    if (++nodes_ > kMaxNodes) return error(fmt::format("found too many values, allowed {}", kMaxNodes));
    if (open_.empty()) {
      root_ = std::move(node);
      return {};
    }
    Open& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kList) {
      parent.node.items.push_back(std::move(node));
    } else if (parent.has_key) {
      parent.node.members.push_back({std::move(parent.key), std::move(node)});
      parent.has_key = false;
    } else {
      parent.key = std::move(node);
      parent.has_key = true;
    }
    return {};
  }

  YamlError syntax_error() const {
    void* iterator = nullptr;
    const fy_diag_error* first = fy_diag_errors_iterate(diag_, &iterator);
    if (first == nullptr || first->msg == nullptr) return error("found text that is no YAML, allowed YAML");
    std::string_view message(first->msg);
    message = message.substr(0, message.find('\n'));
    return {first->line > 0 ? first->line : line_,
            fmt::format("found a syntax error ({}), allowed YAML", one_line(message))};
  }

  struct Open {
    YamlNode node;
    YamlNode key;
    bool has_key = false;
  };

  fy_parser* parser_;
  fy_diag* diag_;
  std::vector<Open> open_;
  YamlNode root_;
  int line_ = 1;
  int documents_ = 0;
  std::size_t nodes_ = 0;
};

}  // namespace

tl::expected<YamlNode, YamlError> parse_yaml(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  if (auto problem = check_text(text)) return tl::unexpected(std::move(*problem));

  fy_diag_cfg diag_config{};
  fy_diag_cfg_default(&diag_config);
  diag_config.fp = nullptr;
  diag_config.output_fn = [](fy_diag*, void*, const char*, std::size_t) {};
  const std::unique_ptr<fy_diag, DiagDeleter> diag(fy_diag_create(&diag_config));
  if (diag == nullptr) return tl::unexpected(YamlError{1, "found no memory, allowed more of it"});
  fy_diag_set_collect_errors(diag.get(), true);
  fy_parse_cfg config{};
  config.diag = diag.get();
  const std::unique_ptr<fy_parser, ParserDeleter> parser(fy_parser_create(&config));
  if (parser == nullptr || fy_parser_set_string(parser.get(), text.data(), text.size()) != 0) {
    return tl::unexpected(YamlError{1, "found no memory, allowed more of it"});
  }
  return Builder(parser.get(), diag.get()).build();
}

}  // namespace roce::config
