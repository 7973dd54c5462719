// SPDX-License-Identifier: Apache-2.0
// Which pages of other sites may use the API from within a browser: none, unless settings say so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "http/exchange.h"

namespace tb::api {

struct Cors {
  // As browsers name them: "https://app.example:8443". "*" is every page, with what the browser
  // can reach: nothing asks for cookies here, so credentials are never allowed.
  std::vector<std::string> origins;

  // Whether the request says that it comes from a page that is allowed.
  bool allows(const http::Request& request) const;

  // Adds what lets the page read the answer, or tells caches that others get another answer.
  void add_headers(http::Exchange& exchange) const;

  // Adds the answer to a browser that asks before it sends: `methods` as in Allow.
  void add_preflight(http::Exchange& exchange, std::string_view methods) const;
};

}  // namespace tb::api
