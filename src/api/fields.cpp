// SPDX-License-Identifier: Apache-2.0
#include "api/fields.h"

#include <time.h>

#include <cmath>

#include "base/utf8.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr Bytes kMaxBody = 16_MiB;
constexpr std::size_t kMaxDepth = 32;
constexpr double kLongestTimeout = 86400;

std::string quoted(const char* name) { return std::string{"\""} + name + "\""; }

const json::value* find(const json::object& body, const char* name) {
  const json::value* value = body.if_contains(name);
  return value && !value->is_null() ? value : nullptr;
}

}  // namespace

boost::asio::awaitable<json::object> read_object(http::Exchange& exchange) {
  const std::string text = co_await exchange.read_body(kMaxBody);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) co_return json::object{};
  json::parse_options options;
  options.max_depth = kMaxDepth;
  boost::system::error_code error;
  json::value value = json::parse(text, error, {}, options);
  if (error) throw http::HttpError{400, "the body is not valid JSON: " + error.message()};
  if (!value.is_object()) throw http::HttpError{400, "the body must be a JSON object"};
  co_return std::move(value.get_object());
}

std::optional<std::string> find_text(const json::object& body, const char* name) {
  const json::value* value = find(body, name);
  if (!value) return std::nullopt;
  if (!value->is_string()) throw http::HttpError{400, quoted(name) + " must be a string"};
  return std::string{value->get_string()};
}

std::optional<double> find_number(const json::object& body, const char* name) {
  const json::value* value = find(body, name);
  if (!value) return std::nullopt;
  if (!value->is_number()) throw http::HttpError{400, quoted(name) + " must be a number"};
  return value->to_number<double>();
}

std::optional<bool> find_flag(const json::object& body, const char* name) {
  const json::value* value = find(body, name);
  if (!value) return std::nullopt;
  if (!value->is_bool()) throw http::HttpError{400, quoted(name) + " must be true or false"};
  return value->get_bool();
}

std::optional<Milliseconds> find_timeout(const json::object& body) {
  const std::optional<double> seconds = find_number(body, "timeout");
  if (!seconds) return std::nullopt;
  if (!(*seconds > 0) || *seconds > kLongestTimeout) {
    throw http::HttpError{400, "\"timeout\" must be more than 0 and at most 86400 seconds"};
  }
  return Milliseconds{std::max<std::int64_t>(1, std::llround(*seconds * 1000))};
}

}  // namespace tb::api
