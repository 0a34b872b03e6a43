// SPDX-License-Identifier: Apache-2.0
//
// What the readers of all configuration files share: how a file is read, and how what is wrong in it is told. Nothing
// throws but std::bad_alloc. Functions are thread-safe; a Findings belongs to one thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "exporter/config/text.h"
#include "exporter/config/yaml_tree.h"

namespace roce::config {

// The file's text, at most 1 MiB of a regular file; else "found ..., allowed ...".
tl::expected<std::string, std::string> read_yaml_file(const std::string& file);

// A document that is a mapping or empty; else "LINE: found ..., allowed ...". `example` is shown to who wrote INI.
tl::expected<YamlNode, std::string> parse_document(std::string_view text, std::string_view example);

// Problems in the order of the file, as the walk finds them.
class Findings {
 public:
  // `key` is the whole path, "a.b", or empty.
  void add(int line, const std::string& key, Problem problem);
  bool empty() const { return found_.empty(); }
  // "LINE: key `x`: found ..., allowed ...; and 2 more: line 7: key `y`: found ...".
  std::string report() const;

 private:
  struct Found {
    int line;
    std::string where;  // "key `x`: " or empty
    Problem problem;
  };
  std::vector<Found> found_;
};

// Calls `take` for each member whose key is a text that did not stand there before; others are findings. `path` is
// that of the mapping, `allowed` what its keys may be.
void walk_mapping(Findings& findings, const std::string& path, const YamlNode& mapping, const std::string& allowed,
                  const std::function<void(const YamlNode& key, const YamlNode& value)>& take);

// "found" wording of a value of the wrong type: the value, or what kind of thing it is.
std::string shown(const YamlNode& node);

// A glimpse of what stands under an unknown key, so that the reader recognises it: "name: value, name: value".
std::string glimpse(const YamlNode& node);

}  // namespace roce::config
