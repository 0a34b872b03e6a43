// SPDX-License-Identifier: Apache-2.0
//
// The plain subset of YAML that configuration needs: mappings, lists and scalars with their lines. Aliases, tags,
// further documents and deep nesting are refused while reading, so a hostile file costs no more than its size.
// Thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

namespace roce::config {

struct YamlMember;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMapping };
  Kind kind = Kind::kNull;
  int line = 1;        // counted from 1
  bool plain = false;  // a scalar without quotes
  std::string text;    // of a scalar
  std::vector<YamlNode> items;
  std::vector<YamlMember> members;  // in the order of the file, repeated keys included
};

struct YamlMember {
  YamlNode key;
  YamlNode value;
};

struct YamlError {
  int line = 1;
  std::string text;  // "found ..., allowed ...", one line
};

// An empty document is kNull.
tl::expected<YamlNode, YamlError> parse_yaml(std::string_view text);

}  // namespace roce::config
