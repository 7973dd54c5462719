// SPDX-License-Identifier: Apache-2.0
#include "api/cors.h"

#include <algorithm>

#include "http/chars.h"
#include "http/origin.h"

namespace tb::api {
namespace {

// Beside the few that every page may read.
constexpr const char* kReadable =
    "Accept-Ranges, Content-Disposition, Content-Range, ETag, Retry-After, X-Request-Id";
constexpr const char* kUsualHeaders = "Content-Type, Range, X-Request-Id";
constexpr const char* kMaxAge = "600";
constexpr std::size_t kMaxAsked = 1024;

// Header names with commas and spaces between them.
bool is_name_list(std::string_view text) {
  return !text.empty() && text.size() <= kMaxAsked &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return c == ',' || c == ' ' || http::in(http::kTokenChars, c); });
}

}  // namespace

bool Cors::allows(const http::Request& request) const {
  return http::is_listed_origin(request, origins);
}

void Cors::add_headers(http::Exchange& exchange) const {
  if (origins.empty()) return;
  exchange.add_response_header("Vary", "Origin");
  const http::Request& request = exchange.request();
  if (!allows(request)) return;
  exchange.add_response_header("Access-Control-Allow-Origin",
                               std::string{*request.headers.find("Origin")});
  exchange.add_response_header("Access-Control-Expose-Headers", kReadable);
}

void Cors::add_preflight(http::Exchange& exchange, std::string_view methods) const {
  const http::Headers& headers = exchange.request().headers;
  if (!allows(exchange.request()) || !headers.find("Access-Control-Request-Method")) return;
  exchange.add_response_header("Access-Control-Allow-Methods", std::string{methods});
  const auto asked = headers.find("Access-Control-Request-Headers");
  exchange.add_response_header("Access-Control-Allow-Headers",
                               asked && is_name_list(*asked) ? std::string{*asked} : kUsualHeaders);
  exchange.add_response_header("Access-Control-Max-Age", kMaxAge);
}

}  // namespace tb::api
