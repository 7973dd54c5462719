// SPDX-License-Identifier: Apache-2.0
// Looking into the audit log.
#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <charconv>

#include "api/processes.h"
#include "api/service.h"
#include "audit/log.h"
#include "audit/reader.h"
#include "base/async.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr std::uint64_t kMaxListed = 1000;
constexpr std::uint64_t kUsuallyListed = 100;
constexpr Milliseconds kPatience = 1s;  // with the disk, for the newest lines
constexpr double kLastTime = 9e9;       // seconds: within what the clock can say

std::optional<audit::WallTime> find_time(const http::Request& request, const char* name) {
  const std::string* text = request.find_query(name);
  if (!text) return std::nullopt;
  double seconds = 0;
  const char* const end = text->data() + text->size();
  const auto [rest, error] = std::from_chars(text->data(), end, seconds);
  if (error != std::errc{} || rest != end || !(seconds >= 0) || seconds > kLastTime) {
    throw http::HttpError{400,
                          std::string{"\""} + name + "\" must be a time in seconds since 1970"};
  }
  return audit::WallTime{std::chrono::milliseconds{static_cast<std::int64_t>(seconds * 1000)}};
}

audit::Query read_query(const http::Request& request) {
  audit::Query query;
  const auto text = [&](const char* name) -> std::optional<std::string> {
    const std::string* value = request.find_query(name);
    return value ? std::optional{*value} : std::nullopt;
  };
  query.session = text("session");
  query.tenant = text("tenant");
  query.action = text("action");
  query.result = text("result");
  constexpr std::array<std::string_view, 5> kResults{"ok", "refused", "failed", "gone", "begun"};
  if (query.result &&
      std::find(kResults.begin(), kResults.end(), *query.result) == kResults.end()) {
    throw http::HttpError{400, "\"result\" must be ok, refused, failed, gone or begun"};
  }
  query.since = find_time(request, "since");
  query.until = find_time(request, "until");
  if (const std::string* before = request.find_query("before")) {
    query.before = read_number(*before, "before");
  }
  const std::string* most = request.find_query("limit");
  query.limit = most ? read_number(*most, "limit") : kUsuallyListed;
  if (query.limit < 1 || query.limit > kMaxListed) {
    throw http::HttpError{400, "\"limit\" must be 1 to 1000"};
  }
  return query;
}

awaitable<http::Response> list(audit::Log& log, asio::thread_pool& disk, Call& call) {
  audit::Query query = read_query(call.exchange.request());
  // Who does not run the server sees what was done in its own name.
  if (!call.principal.operates()) query.tenant = call.principal.tenant;
  auto work = [&log, query] {
    log.flush(kPatience);
    return audit::read_back(log.settings().dir, log.settings().keep, query);
  };
  const audit::Page page = co_await on_pool(disk, std::move(work));
  json::array rows(page.entries.begin(), page.entries.end());
  json::object answer{{"entries", std::move(rows)}, {"next_before", nullptr}};
  if (page.next) answer["next_before"] = *page.next;
  const audit::Log::Counts counts = log.counts();
  answer["lost"] = counts.lost;
  co_return http::json_response(200, json::serialize(answer));
}

}  // namespace

void add_audit_routes(Router& router, Service& service) {
  const auto disk = std::make_shared<asio::thread_pool>(1);
  router.add("GET", "/admin/audit", [&service, disk](Call& call) {
    if (!service.audit) {
      throw Error{Code::unavailable, "this server keeps no audit log: set AUDIT_LOG=on"};
    }
    return list(*service.audit, *disk, call);
  });
}

}  // namespace tb::api
