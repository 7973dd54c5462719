// SPDX-License-Identifier: Apache-2.0
// What is read from JSON that somebody else wrote: absent and of another type are the same.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tb::e2b {

namespace json = boost::json;

// Empty: it is no JSON object.
std::optional<json::object> parse_object(std::string_view text);

std::string text_of(const json::object& from, std::string_view name);
// A number, or a string of digits, as 64-bit numbers are written.
std::int64_t number_of(const json::object& from, std::string_view name);
bool flag_of(const json::object& from, std::string_view name);
const json::object* object_of(const json::object& from, std::string_view name);

// For a query: all but letters, digits and -._~ is escaped.
std::string percent_encode(std::string_view text);

}  // namespace tb::e2b
