// SPDX-License-Identifier: Apache-2.0
// Sessions in the dialect of the /api system: made of an environment by a provider, listed, ended.
#include <boost/json.hpp>
#include <charconv>

#include "api/creation_wait.h"
#include "api/errors.h"
#include "api/fields.h"
#include "api/service.h"
#include "api/session_fields.h"
#include "base/iso8601.h"
#include "base/utf8.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr const char* kDefaultEnvironment = "Python3";
constexpr std::size_t kPage = 100;
constexpr std::size_t kMaxPage = 1000;

// `agent`, or `agent_config` with a `type`, whose other keys are the client's own business.
std::string read_agent(const json::object& body) {
  if (auto agent = find_text(body, "agent")) return *agent;
  const json::value* config = body.if_contains("agent_config");
  if (!config || config->is_null()) return {};
  if (!config->is_object()) throw http::HttpError{400, "\"agent_config\" must be an object"};
  return find_text(config->get_object(), "type").value_or("");
}

std::string read_named(const json::object& body, const char* field) {
  std::string name = find_text(body, field).value_or("");
  check_name(name, field);
  return name;
}

bool runs(const session::Session& session) { return session.sandbox && session.sandbox->alive(); }

json::value or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

json::array render(const std::vector<sandbox::Mount>& mounts) {
  json::array volumes;
  for (const sandbox::Mount& mount : mounts) {
    if (mount.host_directory) continue;  // the operator's business
    volumes.push_back(
        {{"name", mount.name}, {"path", mount.target}, {"read_only", mount.read_only}});
  }
  return volumes;
}

json::object render(const session::Session& session) {
  json::object body{{"session_id", session.id},
                    {"sandbox_id", session.id},
                    {"provider", session.spec.provider},
                    {"environment", or_null(session.spec.environment)},
                    {"agent", or_null(session.spec.agent)},
                    {"thread_id", session.spec.thread},
                    {"user_id", session.spec.user},
                    {"policy", session.spec.policy},
                    {"volumes", render(session.spec.mounts)},
                    {"sandbox", runs(session) ? "running" : "asleep"},
                    {"created_at", iso8601(session.created)},
                    {"last_activity", iso8601(session.last_activity)},
                    {"expires_at", iso8601(session.expires())}};
  tell_files_age(body, session);
  return body;
}

awaitable<http::Response> create(Service& service, Call& call) {
  const json::object body = co_await read_object(call.exchange);
  session::SessionSpec spec = read_session(body, service, call, Milliseconds{0});
  spec.agent = read_agent(body);
  check_name(spec.agent, "agent");
  spec.environment = read_named(body, "environment");
  if (spec.environment.empty() && spec.agent.empty()) spec.environment = kDefaultEnvironment;
  const std::string asked = read_named(body, "provider");
  spec.provider = asked;
  const CreationWait wait{service, call};
  const session::Sessions::Result result =
      co_await service.sessions.get_or_create(std::move(spec), wait.patience());
  const auto& session = result.session;
  service.sessions.events().about(session->who(call.request_id));
  json::object answer = render(*session);
  answer["status"] = "running";
  answer["existing"] = result.existed;
  answer["url"] = session->sandbox ? or_null(session->sandbox->url()) : json::value(nullptr);
  if (!asked.empty() && asked != session->spec.provider) answer["requested_provider"] = asked;
  co_return http::json_response(200, json::serialize(answer));
}

[[noreturn]] void refuse(const std::string& id) {
  const std::string shown = to_utf8(id.substr(0, 200));
  throw Refusal{404, "Session not found: " + shown, {{"session_id", shown}}};
}

awaitable<http::Response> get(Service& service, Call& call) {
  const auto session = find_own_session(service, call, call.captured[0]);
  if (!session) refuse(call.captured[0]);
  const std::string text = co_await service.sessions.agent_state(session);
  boost::system::error_code unreadable;
  json::value state = json::parse(text, unreadable);
  json::object answer = render(*session);
  answer["state"] = unreadable || !state.is_object() ? json::object{} : state.get_object();
  answer["status"] = "active";
  co_return http::json_response(200, json::serialize(answer));
}

awaitable<http::Response> remove(Service& service, Call& call) {
  const std::string& id = call.captured[0];
  const auto session = find_own_session(service, call, id);
  if (!session) refuse(id);
  const std::string* sandbox = call.exchange.request().find_query("sandbox_id");
  if (sandbox && !sandbox->empty() && *sandbox != session->id) {
    throw Refusal{400,
                  "\"sandbox_id\" is not the sandbox of this session",
                  {{"session_id", session->id}, {"sandbox_id", session->id}}};
  }
  co_await remove_own_session(service, call, id);
  json::object answer{{"status", "deleted"}, {"session_id", id}};
  co_return http::json_response(200, json::serialize(answer));
}

// Also of one that has ended.
awaitable<http::Response> log_of(Service& service, Call& call) {
  constexpr std::size_t kMost = 1 << 20;
  const std::string& id = call.captured[0];
  std::string text = co_await own_log(service, call, id, kMost);
  if (text.empty() && !find_own_session(service, call, id)) refuse(id);
  http::Response response;
  response.content_type = "application/x-ndjson";
  response.headers.push_back({"X-Content-Type-Options", "nosniff"});
  response.body = std::move(text);
  co_return response;
}

std::size_t read_size(const http::Request& request, const char* name, std::size_t otherwise,
                      std::size_t most) {
  const std::string* text = request.find_query(name);
  if (!text) return otherwise;
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error == std::errc{} && end == text->data() + text->size() && value <= most) return value;
  throw http::HttpError{
      400, std::string{"\""} + name + "\" must be a whole number up to " + std::to_string(most)};
}

// What a query wants of sessions.
class Filter {
 public:
  explicit Filter(const http::Request& request) : request_(request) {
    const std::string* state = request.find_query("state");
    if (state && *state != "running" && *state != "asleep") {
      throw http::HttpError{400, "\"state\" must be running or asleep"};
    }
  }
  bool takes(const session::Session& session) const {
    const session::SessionSpec& spec = session.spec;
    return is("thread_id", spec.thread) && is("user_id", spec.user) &&
           is("provider", spec.provider) && is("environment", spec.environment) &&
           is("agent", spec.agent) && is("state", runs(session) ? "running" : "asleep");
  }

 private:
  bool is(const char* name, const std::string& value) const {
    const std::string* wanted = request_.find_query(name);
    return !wanted || *wanted == value;
  }
  const http::Request& request_;
};

awaitable<http::Response> list(Service& service, Call& call) {
  const http::Request& request = call.exchange.request();
  const std::size_t limit = read_size(request, "limit", kPage, kMaxPage);
  const std::size_t offset = read_size(request, "offset", 0, 1'000'000'000);
  const Filter filter{request};
  json::array rows;
  std::size_t total = 0;
  for (const auto& session : own_sessions(service, call)) {
    if (!filter.takes(*session)) continue;
    if (total >= offset && rows.size() < limit) {
      json::object row = render(*session);
      row["status"] = "active";
      rows.push_back(std::move(row));
    }
    ++total;
  }
  json::object answer{
      {"sessions", std::move(rows)}, {"total", total}, {"limit", limit}, {"offset", offset}};
  co_return http::json_response(200, json::serialize(answer));
}

awaitable<http::Response> greet() {
  co_return http::json_response(200, R"({"message":"Sandbox System API"})");
}

awaitable<http::Response> deprecated(const char* instead) {
  throw http::HttpError{410,
                        std::string{"This endpoint is deprecated. Use "} + instead + " instead."};
  co_return http::Response{};
}

}  // namespace

void add_session_routes(Router& router, Service& service) {
  router.add("GET", "/", [](Call&) { return greet(); });
  router.add("POST", "/api/sessions", [&service](Call& call) { return create(service, call); });
  router.add("GET", "/api/sessions", [&service](Call& call) { return list(service, call); });
  router.add("GET", "/api/sessions/{}", [&service](Call& call) { return get(service, call); });
  router.add("GET", "/api/sessions/{}/log",
             [&service](Call& call) { return log_of(service, call); });
  router.add("DELETE", "/api/sessions/{}",
             [&service](Call& call) { return remove(service, call); });
  struct Gone {
    const char* method;
    const char* path;
    const char* instead;
  };
  constexpr Gone kGone[] = {
      {"POST", "/api/sandbox/start", "POST /api/sessions"},
      {"POST", "/api/sandbox/stop", "DELETE /api/sessions/{session_id}"},
      {"GET", "/api/sandbox/status/{}", "GET /api/sessions/{session_id}"},
  };
  for (const Gone& gone : kGone) {
    router.add(gone.method, gone.path,
               [instead = gone.instead](Call&) { return deprecated(instead); });
  }
}

}  // namespace tb::api
