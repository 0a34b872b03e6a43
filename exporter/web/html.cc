// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/html.h"

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
