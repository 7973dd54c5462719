// SPDX-License-Identifier: Apache-2.0
// What a coordinator answers itself: how the workers are, and what all of them have.
#include <boost/json.hpp>
#include <charconv>

#include "base/error.h"
#include "cluster/coordinator.h"

namespace tb::cluster {
namespace {

namespace json = boost::json;

constexpr std::size_t kPage = 100;
constexpr std::size_t kMaxPage = 1000;

std::size_t number_in(const http::Request& request, const char* name, std::size_t otherwise) {
  const std::string* text = request.find_query(name);
  std::size_t value = otherwise;
  if (text) std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

std::string_view text_of(const json::value& row, const char* name) {
  const json::value* value = row.as_object().if_contains(name);
  return value && value->is_string() ? std::string_view{value->get_string()} : std::string_view{};
}

// Without what belongs to the connection that it came over.
http::Response copy_of(const http::Response& reply) {
  http::Response copy;
  copy.status = reply.status;
  copy.reason = reply.reason;
  copy.content_type = reply.content_type;
  copy.body = reply.body;
  return copy;
}

}  // namespace

bool Coordinator::answers_itself(const http::Request& request) const {
  if (request.method != "GET" && request.method != "HEAD") return false;
  const std::string& path = request.path;
  return path == "/health" || path == "/metrics" || path == "/cluster/workers" ||
         path == "/api/sessions" || path == "/api/sessions/";
}

awaitable<http::Response> Coordinator::answer(http::Exchange& exchange) {
  const std::string path = exchange.request().path;
  if (path == "/health") co_return health();
  if (path == "/metrics") co_return metrics();
  if (path == "/cluster/workers") co_return workers();
  co_return co_await sessions(exchange);
}

http::Response Coordinator::health() const {
  json::array rows;
  std::size_t healthy = 0;
  std::uint64_t used = 0;
  std::uint64_t capacity = 0;
  for (const std::shared_ptr<Worker>& worker : fleet_.all()) {
    healthy += worker->healthy ? 1 : 0;
    used += worker->record.used;
    capacity += worker->record.capacity;
    rows.push_back({{"url", worker->url}, {"status", worker->healthy ? "healthy" : "unhealthy"}});
  }
  json::object body{{"status", "healthy"},
                    {"version", TB_VERSION},
                    {"workers_total", rows.size()},
                    {"workers_healthy", healthy},
                    {"redis_connected", fleet_.directory_connected()},
                    // For clients that expect what a worker tells: the sums.
                    {"worker_id", "coordinator"},
                    {"pool_size", capacity},
                    {"pool_available", capacity - std::min(capacity, used)},
                    {"pool",
                     {{"available", capacity - std::min(capacity, used)},
                      {"allocated", used},
                      {"total", used},
                      {"max_capacity", capacity}}},
                    {"active_sessions", used}};
  body["workers"] = std::move(rows);
  return http::json_response(200, json::serialize(body));
}

http::Response Coordinator::metrics() const {
  http::Response response;
  response.content_type = Registry::kContentType;
  response.body = registry_.render();
  return response;
}

http::Response Coordinator::workers() const {
  json::array rows;
  for (const std::shared_ptr<Worker>& worker : fleet_.all()) {
    rows.push_back({{"worker", worker->id},
                    {"url", worker->url},
                    {"status", worker->healthy ? "healthy" : "unhealthy"},
                    {"capacity", worker->record.capacity},
                    {"used", worker->record.used},
                    {"version", worker->record.version},
                    {"epoch", worker->record.epoch}});
  }
  return http::json_response(200, json::serialize(json::object{{"workers", std::move(rows)}}));
}

// What any worker says to it.
awaitable<http::Response> Coordinator::check_question(const http::Request& request) {
  for (std::size_t i = 0; i < fleet_.all().size(); ++i) {
    const std::shared_ptr<Worker> one = fleet_.any();
    if (!one) break;
    try {
      const http::Response reply = co_await fleet_.get(one, request.target, caller_of(request));
      co_return copy_of(reply);
    } catch (const Error&) {
      fleet_.avoid(*one);
    }
  }
  throw http::HttpError{503, "No healthy workers available", {{"Retry-After", "1"}}};
}

// Of all workers, the oldest first, as one worker lists its own.
awaitable<http::Response> Coordinator::sessions(http::Exchange& exchange) {
  const http::Request& request = exchange.request();
  const std::size_t limit = std::min(number_in(request, "limit", kPage), kMaxPage);
  const std::size_t offset = number_in(request, "offset", 0);
  std::string target = "/api/sessions?limit=1000";
  const std::size_t query = request.target.find('?');
  std::string_view rest;
  if (query != std::string::npos) rest = std::string_view{request.target}.substr(query + 1);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view one = rest.substr(0, end);
    const bool page = one.starts_with("limit=") || one.starts_with("offset=");
    if (!page) target.append("&").append(one);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  std::vector<json::value> rows;
  std::size_t total = 0;
  json::array silent;
  // What is wrong with the question, a worker says.
  const http::Response checked = co_await check_question(request);
  if (checked.status != 200) co_return checked;
  for (const std::shared_ptr<Worker>& worker : fleet_.all()) {
    try {
      const http::Response reply = co_await fleet_.get(worker, target, caller_of(request));
      json::value body = json::parse(reply.body);
      total += body.at("total").to_number<std::size_t>();
      for (json::value& row : body.at("sessions").as_array()) {
        row.as_object()["worker"] = worker->id;
        rows.push_back(std::move(row));
      }
    } catch (const std::exception&) {
      silent.push_back(json::value(worker->id));
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const json::value& a, const json::value& b) {
    return text_of(a, "created_at") < text_of(b, "created_at");
  });
  json::array page;
  for (std::size_t i = offset; i < rows.size() && page.size() < limit; ++i) {
    page.push_back(std::move(rows[i]));
  }
  json::object answer{{"total", total}, {"limit", limit}, {"offset", offset}};
  answer["sessions"] = std::move(page);
  if (!silent.empty()) answer["silent_workers"] = std::move(silent);
  co_return http::json_response(200, json::serialize(answer));
}

}  // namespace tb::cluster
