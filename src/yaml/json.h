// SPDX-License-Identifier: Apache-2.0
// A part of a YAML file as JSON, with the lines that its parts had.
#pragma once

#include <boost/json.hpp>
#include <map>
#include <string>

#include "yaml/reader.h"

namespace tb::yaml {

using Lines = std::map<std::string, int>;  // by JSON pointer

// Plain scalars are null, true, false or numbers where they look like those; quoted ones are text.
// A key that stands there twice, and one that is no text, is noted.
boost::json::value to_json(const Reader& reader, const Node& node, Lines* lines = nullptr);

// A part of a JSON pointer: / and ~ are escaped.
std::string pointer_part(std::string_view key);

}  // namespace tb::yaml
