// SPDX-License-Identifier: Apache-2.0
// The request target: path and query, decoded.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace tb::http {

// Decodes %XX, and '+' to a space if `plus_is_space`; empty when an escape is cut or not hex.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space = false);

// "a=1&b=two+words" as a form is read. Throws HttpError 400 on a bad escape.
std::vector<Parameter> parse_query(std::string_view query);

// Fills `path` and `query` from `method`, `target` and the Host header. Takes "/path?query",
// "*" for OPTIONS, and "http://host/path" when host is what Host says; else HttpError 400.
void parse_target(Request& request);

}  // namespace tb::http
