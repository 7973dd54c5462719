// SPDX-License-Identifier: Apache-2.0
#include "api/router.h"

#include <algorithm>

#include "api/errors.h"
#include "http/origin.h"

namespace tb::api {
namespace {

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> segments;
  std::size_t at = 0;
  while (at < path.size()) {
    const std::size_t next = std::min(path.find('/', at + 1), path.size());
    segments.emplace_back(path.substr(at + 1, next - at - 1));
    at = next;
  }
  // /x/ and /x are one place.
  if (segments.size() > 1 && segments.back().empty()) segments.pop_back();
  return segments;
}

bool match(const std::vector<std::string>& pattern, const std::vector<std::string>& path,
           std::vector<std::string>& captured) {
  const bool open_ended = !pattern.empty() && pattern.back() == "{*}";
  if (open_ended ? path.size() < pattern.size() : path.size() != pattern.size()) return false;
  captured.clear();
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == "{*}") {
      std::string rest = path[i];
      for (std::size_t j = i + 1; j < path.size(); ++j) rest += "/" + path[j];
      captured.push_back(std::move(rest));
    } else if (pattern[i] == "{}") {
      captured.push_back(path[i]);
    } else if (pattern[i] != path[i]) {
      return false;
    }
  }
  return true;
}

// Our own pages send whatever they like. A page can't write either header itself; browsers leave
// Sec-Fetch-Site out where there is neither TLS nor a loopback address.
bool sent_by_our_page(const http::Request& request) {
  if (const auto site = request.headers.find("Sec-Fetch-Site")) return *site == "same-origin";
  return http::is_own_origin(request);
}

// What a browser sends for a page without asking the server first.
bool is_simple_type(std::string_view type) {
  for (const std::string_view simple :
       {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"}) {
    if (type.size() >= simple.size() &&
        http::equal_ignoring_case(type.substr(0, simple.size()), simple)) {
      return true;
    }
  }
  return false;
}

// Whether it becomes one is seen later.
bool wants_websocket(const http::Request& request) {
  const auto upgrade = request.headers.find("Upgrade");
  return request.method == "GET" && upgrade && http::equal_ignoring_case(*upgrade, "websocket");
}

}  // namespace

Router::Router(session::Metrics& metrics)
    : metrics_(&metrics), other_(&metrics.route("other", "other")) {}

void Router::add(std::string method, std::string pattern, Respond respond) {
  std::vector<std::string> segments = split(pattern);
  session::RouteMetrics* counted = metrics_ ? &metrics_->route(method, pattern) : nullptr;
  const Rule rule = rule_of(method, pattern);
  routes_.push_back({{std::move(method), std::move(pattern), std::move(respond)},
                     rule,
                     std::move(segments),
                     counted});
}

std::vector<std::string> Router::routes() const {
  std::vector<std::string> names;
  for (const Compiled& compiled : routes_) {
    std::string pattern = compiled.route.pattern;
    if (pattern.ends_with("{*}")) pattern.replace(pattern.size() - 3, 3, "{}");
    names.push_back(compiled.route.method + " " + pattern);
  }
  return names;
}

Router::Found Router::find(const http::Request& request) const {
  const std::vector<std::string> path = split(request.path);
  Found found;
  for (const Compiled& compiled : routes_) {
    const bool head = request.method == "HEAD" && compiled.route.method == "GET";
    if (compiled.route.method != request.method && !head) continue;
    if (!match(compiled.segments, path, found.captured)) continue;
    found.route = &compiled;
    break;
  }
  return found;
}

// A page of another site can make a browser post simple forms here, and nothing else: refuse those.
bool Router::forged_by_browser(const http::Request& request) const {
  if (request.method != "POST" || cors_.allows(request)) return false;
  if (!request.headers.find("Origin") && !request.headers.find("Sec-Fetch-Site")) return false;
  if (sent_by_our_page(request)) return false;
  const auto type = request.headers.find("Content-Type");
  return !type || is_simple_type(*type);
}

// "GET, HEAD, OPTIONS"; empty when no route has this path.
std::string Router::methods_of(const http::Request& request) const {
  const std::vector<std::string> path = split(request.path);
  std::vector<std::string> captured;
  std::vector<std::string_view> methods;
  const auto add = [&](std::string_view method) {
    if (std::find(methods.begin(), methods.end(), method) == methods.end()) {
      methods.push_back(method);
    }
  };
  for (const Compiled& compiled : routes_) {
    if (request.path != "*" && !match(compiled.segments, path, captured)) continue;
    add(compiled.route.method);
    if (compiled.route.method == "GET") add("HEAD");
  }
  if (methods.empty()) return {};
  add("OPTIONS");
  std::string list;
  for (const std::string_view method : methods)
    list.append(list.empty() ? "" : ", ").append(method);
  return list;
}

// No route has this path with this method.
http::Response Router::refuse_method(http::Exchange& exchange) const {
  const http::Request& request = exchange.request();
  const std::string methods = methods_of(request);
  if (methods.empty()) throw http::HttpError{404, "Not Found"};
  if (request.method != "OPTIONS") {
    throw http::HttpError{405, "Method Not Allowed", {{"Allow", methods}}};
  }
  cors_.add_preflight(exchange, methods);
  http::Response response;
  response.status = 204;
  response.headers.push_back({"Allow", methods});
  return response;
}

// Who asks. Where nobody is asked for a key, a web site must not come in through a browser on this
// machine either: its page could have a name that leads here (DNS rebinding).
awaitable<auth::Principal> Router::find_out(const http::Request& request, const Rule& rule) const {
  if (!guard_) co_return auth::Principal{};
  if (local_ && !guard_->required() && !http::has_local_host(request) &&
      !http::is_listed_host(request, cors_.origins)) {
    throw http::HttpError{421,
                          "this server asks nobody for a key, so it answers only to the names of "
                          "this machine: use its address, make a key (`threadbox keys create`), or "
                          "name this origin in CORS_ORIGINS"};
  }
  co_return co_await guard_->authenticate(request, rule.access == Access::open);
}

// Counts a request for who sent it, and in the end its bytes.
class Router::Metered {
 public:
  Metered(limits::Limits* limits, http::Exchange& exchange)
      : limits_(limits && limits->active() ? limits : nullptr), exchange_(exchange) {}
  ~Metered() {
    if (counted_) limits_->charge(who_, limits::Flow::bytes, exchange_.transferred());
  }
  Metered(const Metered&) = delete;
  Metered& operator=(const Metered&) = delete;

  // Throws limits::Exceeded.
  void begin(const auth::Principal& principal) {
    if (!limits_) return;
    who_ = {principal.tenant, principal.key, principal.user};
    limits_->check(who_, limits::Flow::bytes);
    add_rate_headers(exchange_, limits_->take(who_, limits::Flow::requests));
    counted_ = true;
  }

 private:
  limits::Limits* limits_;
  http::Exchange& exchange_;
  limits::Identity who_;
  bool counted_ = false;
};

awaitable<http::Response> Router::answer(http::Exchange& exchange, Found found, Asked& asked,
                                         Metered& metered) const {
  if (forged_by_browser(exchange.request())) {
    throw http::HttpError{415, "send application/json from a browser"};
  }
  if (!found.route) co_return refuse_method(exchange);
  const Rule& rule = found.route->rule;
  auth::Principal principal = co_await find_out(exchange.request(), rule);
  if (recorder_) asked.principal = principal;
  check_rule(rule, principal);
  // What looks after a server must not be kept out by those who use it.
  if (rule.access != Access::open && !rule.whole_server) metered.begin(principal);
  if (recorder_ && wants_websocket(exchange.request())) recorder_->opening(asked);
  Call call{exchange, std::move(found.captured), exchange.request().id, std::move(principal)};
  const Running::Entry entry{running_, call.principal, exchange};
  co_return co_await found.route->route.respond(call);
}

void Router::cut_revoked() {
  if (!guard_) return;
  running_.cut_unless([this](const auth::Principal& who) { return guard_->still_good(who); });
}

namespace {

// A request that is being answered; told of when it ends, however that is.
class Recorded {
 public:
  Recorded(Recorder* recorder, Asked asked) : recorder_(recorder), asked_(std::move(asked)) {
    if (recorder_) recorder_->began(asked_.request);
  }
  ~Recorded() {
    if (recorder_) recorder_->ended(asked_);
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  Asked& asked() { return asked_; }

 private:
  Recorder* recorder_;  // null: nobody writes it down
  Asked asked_;
};

}  // namespace

awaitable<void> Router::handle(http::Exchange& exchange) const {
  cors_.add_headers(exchange);
  Found found = find(exchange.request());
  session::CountedRequest counted{found.route ? found.route->metrics : other_};
  Asked asked{.request = exchange.request()};
  if (found.route && recorder_) {
    asked.pattern = found.route->route.pattern;
    asked.captured = found.captured;
  }
  Recorded recorded{recorder_, std::move(asked)};
  co_await handle(exchange, std::move(found), recorded.asked());
  counted.status = recorded.asked().status;
}

// The status is set once the answer was heard: it may be that nobody was there.
awaitable<void> Router::handle(http::Exchange& exchange, Found found, Asked& asked) const {
  http::Response response;
  std::exception_ptr failure;
  Metered metered{limits_, exchange};
  try {
    response = co_await answer(exchange, std::move(found), asked, metered);
  } catch (...) {
    failure = std::current_exception();
  }
  if (exchange.answered()) {
    // Too late for a status: the server cuts the connection, which the client can see.
    if (failure) std::rethrow_exception(failure);
    asked.status = response.status;
    co_return;
  }
  if (failure) response = error_response(failure, exchange.request().id);
  const int answered = response.status;
  if (unsettled_ && unsettled_()) co_await settle_();
  co_await exchange.respond(std::move(response));
  asked.status = answered;
}

}  // namespace tb::api
