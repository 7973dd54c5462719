// SPDX-License-Identifier: Apache-2.0
// From a request to the function that answers it: a table of routes.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "api/cors.h"
#include "api/recorder.h"
#include "api/rules.h"
#include "api/running.h"
#include "auth/authenticator.h"
#include "http/exchange.h"
#include "limits/limits.h"
#include "session/metrics.h"

namespace tb::api {

using boost::asio::awaitable;

// A request with what the route's pattern captured: /status/{} has one, /files/{*} all that
// follows.
struct Call {
  http::Exchange& exchange;
  std::vector<std::string> captured;
  const std::string& request_id;   // For log lines; the answer carries it already.
  auth::Principal principal = {};  // who asks, as the guard found
};

// Answers a call by what it returns; or, for a body that is streamed, by begin(), write() and end()
// of the call's exchange: of what it returns then only the status counts.
using Respond = std::function<awaitable<http::Response>(Call& call)>;

struct Route {
  std::string method;
  std::string pattern;  // segments; {} captures one, {*} at the end one or more
  Respond respond;
};

class Router {
 public:
  Router() = default;
  // Counts requests there, by the pattern of their route; what has none is "other".
  explicit Router(session::Metrics& metrics);
  void add(std::string method, std::string pattern, Respond respond);
  void set_cors(Cors cors) { cors_ = std::move(cors); }
  // From now on nobody reaches a route whom its rule does not let in. Without it everybody is
  // the admin of the default tenant. It outlives this.
  // `local`: it is for this machine alone, as long as nobody is asked for a key.
  void set_guard(auth::Authenticator& guard, bool local) {
    guard_ = &guard;
    local_ = local;
  }
  // Tells it of every request. It outlives this.
  void set_recorder(Recorder& recorder) { recorder_ = &recorder; }
  // While `needed`, answers wait for `wait`: what a client knows of must not be lost any more.
  void answer_after(std::function<bool()> needed, std::function<awaitable<void>()> wait) {
    unsettled_ = std::move(needed);
    settle_ = std::move(wait);
  }
  // What is more than these allow is a 429. They outlive this.
  void set_limits(limits::Limits& limits) { limits_ = &limits; }

  // Finds the route and answers; errors become statuses here and nowhere else. HEAD is answered
  // like GET, and OPTIONS with the methods of the path.
  awaitable<void> handle(http::Exchange& exchange) const;
  // Ends the connections of those whose key was revoked, or has expired, since they asked.
  void cut_revoked();
  // "GET /status/{}", in the order in which they were added.
  std::vector<std::string> routes() const;

 private:
  struct Compiled {
    Route route;
    Rule rule;
    std::vector<std::string> segments;
    session::RouteMetrics* metrics;  // null: nobody counts
  };
  struct Found {
    const Compiled* route = nullptr;
    std::vector<std::string> captured = {};
  };
  Found find(const http::Request& request) const;
  awaitable<void> handle(http::Exchange& exchange, Found found, Asked& asked) const;
  class Metered;
  awaitable<http::Response> answer(http::Exchange& exchange, Found found, Asked& asked,
                                   Metered& metered) const;
  awaitable<auth::Principal> find_out(const http::Request& request, const Rule& rule) const;
  std::string methods_of(const http::Request& request) const;
  http::Response refuse_method(http::Exchange& exchange) const;
  bool forged_by_browser(const http::Request& request) const;

  session::Metrics* metrics_ = nullptr;
  session::RouteMetrics* other_ = nullptr;
  std::vector<Compiled> routes_;
  Cors cors_;
  auth::Authenticator* guard_ = nullptr;
  bool local_ = false;
  Recorder* recorder_ = nullptr;  // null: nobody writes it down
  std::function<bool()> unsettled_;
  std::function<awaitable<void>()> settle_;
  limits::Limits* limits_ = nullptr;
  mutable Running running_;
};

}  // namespace tb::api
