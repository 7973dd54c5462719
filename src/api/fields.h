// SPDX-License-Identifier: Apache-2.0
// Fields of a JSON body, each with an error that names it when it is not what it should be.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/json.hpp>
#include <chrono>
#include <optional>
#include <string>

#include "base/units.h"
#include "http/exchange.h"

namespace tb::api {

// The body as a JSON object; empty when there is no body. Throws HttpError 400.
boost::asio::awaitable<boost::json::object> read_object(http::Exchange& exchange);

// Absent and null are the same. Throws HttpError 400 when the type is another.
std::optional<std::string> find_text(const boost::json::object& body, const char* name);
std::optional<double> find_number(const boost::json::object& body, const char* name);
std::optional<bool> find_flag(const boost::json::object& body, const char* name);

// `timeout` in seconds: more than 0, at most a day.
std::optional<Milliseconds> find_timeout(const boost::json::object& body);

}  // namespace tb::api
