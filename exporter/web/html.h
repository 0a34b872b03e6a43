// SPDX-License-Identifier: Apache-2.0
//
// Text of others on pages of ours.
#pragma once

#include <string>
#include <string_view>

namespace roce {

// Text for HTML content and attribute values; what cannot be shown becomes U+FFFD.
std::string html_escape(std::string_view text);

// A name in running text: escaped, and without effect on the direction of what follows it.
std::string html_name(std::string_view name);
// The same for long names such as NQNs, which may break after : and . alone; what follows the last colon stays whole
// where there is room.
std::string html_long_name(std::string_view name);

// At most `limit` characters, the last of them an ellipsis where some are left out.
std::string shortened(std::string_view text, std::size_t limit);

}  // namespace roce
