// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/html.h"

#include <algorithm>

namespace roce {

std::string html_escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '\t':
      case '\n':
        out += c;
        break;
      default:
        // Of the control characters a parser makes errors, or other characters.
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
          out += "\xef\xbf\xbd";
        else
          out += c;
    }
  }
  return out;
}

std::string html_name(std::string_view name) { return "<bdi>" + html_escape(name) + "</bdi>"; }

std::string html_long_name(std::string_view name) {
  const std::size_t last = name.rfind(':') + 1;  // 0 where there is none
  std::string out = "<bdi>";
  std::string_view rest = name.substr(0, last);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find_first_of(":."), rest.size() - 1) + 1;
    out += html_escape(rest.substr(0, end)) + "<wbr>";
    rest.remove_prefix(end);
  }
  return out + "<span class=\"whole\">" + html_escape(name.substr(last)) + "</span></bdi>";
}

std::string shortened(std::string_view text, std::size_t limit) {
  std::size_t characters = 0;
  std::size_t last = 0;  // where the last character begins that fits beside an ellipsis
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) == 0x80) continue;
    if (++characters == limit) last = i;
    if (characters > limit) return std::string(text.substr(0, last)) + "…";
  }
  return std::string(text);
}

}  // namespace roce
