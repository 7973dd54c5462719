// SPDX-License-Identifier: Apache-2.0
// From a request to the function that answers it: a table of routes.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>
#include <vector>

#include "http/exchange.h"
#include "session/metrics.h"

namespace tb::api {

using boost::asio::awaitable;

// A request with what the route's pattern captured: /status/{} has one.
struct Call {
  http::Exchange& exchange;
  std::vector<std::string> captured;
};

using Respond = std::function<awaitable<http::Response>(Call& call)>;

struct Route {
  std::string method;
  std::string pattern;  // segments; {} captures one
  Respond respond;
};

class Router {
 public:
  Router() = default;
  // Counts requests there, by the pattern of their route; what has none is "other".
  explicit Router(session::Metrics& metrics);
  void add(std::string method, std::string pattern, Respond respond);
  // Finds the route and answers; errors become statuses here and nowhere else.
  awaitable<void> handle(http::Exchange& exchange) const;
  // "GET /status/{}", in the order in which they were added.
  std::vector<std::string> routes() const;

 private:
  struct Compiled {
    Route route;
    std::vector<std::string> segments;
    session::RouteMetrics* metrics;  // null: nobody counts
  };
  struct Found {
    const Compiled* route = nullptr;
    bool known = false;  // the path, at least by another method
    std::vector<std::string> captured = {};
  };
  Found find(const http::Request& request) const;
  static awaitable<http::Response> answer(http::Exchange& exchange, Found found);

  session::Metrics* metrics_ = nullptr;
  session::RouteMetrics* other_ = nullptr;
  std::vector<Compiled> routes_;
};

}  // namespace tb::api
