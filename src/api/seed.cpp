// SPDX-License-Identifier: Apache-2.0
// The dialect of the seed systems' clients: one set of paths, the union of all generations' fields.
#include <boost/json.hpp>

#include "api/command_fields.h"
#include "api/creation_wait.h"
#include "api/errors.h"
#include "api/fields.h"
#include "api/files.h"
#include "api/output_writer.h"
#include "api/render.h"
#include "api/service.h"
#include "api/session_fields.h"
#include "base/iso8601.h"
#include "base/utf8.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr const char* kUser = "sandboxuser";
constexpr std::size_t kMaxName = 512;  // of a thread that is shown

json::object render(const session::Session& session, const Service& service) {
  json::object body{{"session_id", session.id},
                    {"thread_id", session.spec.thread},
                    {"workspace_dir", kWorkspace},
                    {"workspace", kWorkspace},
                    {"user", kUser},
                    {"worker", service.worker_id},
                    {"policy", session.spec.policy},
                    {"created_at", iso8601(session.created)},
                    {"last_activity", iso8601(session.last_activity)},
                    {"expires_at", iso8601(session.expires())}};
  tell_files_age(body, session);
  return body;
}

awaitable<http::Response> create_session(Service& service, Call& call) {
  const json::object body = co_await read_object(call.exchange);
  session::SessionSpec spec = read_session(body, service, call, service.session_timeout);
  const CreationWait wait{service, call};
  const session::Sessions::Result result =
      co_await service.sessions.get_or_create(std::move(spec), wait.patience());
  service.sessions.events().about(result.session->who(call.request_id));
  json::object answer = render(*result.session, service);
  answer["status"] = result.existed ? "existing" : "created";
  co_return http::json_response(result.existed ? 409 : 200, json::serialize(answer));
}

// Absent when the sandbox has ended or can't tell: it is not worth making another one.
awaitable<json::value> count_files(Service& service, std::shared_ptr<session::Session> session) {
  if (!session->known() && !session->keeps_place) co_return nullptr;
  try {
    const session::Use use = co_await service.sessions.look(session);
    const sandbox::Usage usage = co_await use.sandbox().files().usage();
    co_return usage.files;
  } catch (const Error&) {
    co_return nullptr;
  }
}

awaitable<http::Response> get_session(Service& service, Call& call) {
  const std::string* thread = call.exchange.request().find_query("thread_id");
  if (!thread || thread->empty()) throw http::HttpError{400, "thread_id required"};
  const auto session = co_await find_own_thread(service, call, *thread);
  if (!session) {
    throw Refusal{404,
                  "No active session found for thread_id",
                  {{"thread_id", to_utf8(thread->substr(0, kMaxName))}}};
  }
  service.sessions.events().session_reused(session->who(call.request_id));
  json::object answer = render(*session, service);
  answer["status"] = "active";
  answer["files_count"] = co_await count_files(service, session);
  co_return http::json_response(200, json::serialize(answer));
}

// A command that a client repeats on a new session, because the old one had expired. Counted when
// the request ends; one that an exception leaves has failed.
class CountedRetry {
 public:
  CountedRetry(Service& service, const http::Request& request)
      : metrics_(service.metrics),
        counts_(request.headers.find("X-Threadbox-Retry").value_or("") == "1") {}
  CountedRetry(const CountedRetry&) = delete;
  CountedRetry& operator=(const CountedRetry&) = delete;
  ~CountedRetry() {
    if (counts_) metrics_.auto_retries[result_].add();
  }
  void succeeded() { result_ = session::Retried::success; }

 private:
  session::Metrics& metrics_;
  bool counts_;
  session::Retried result_ = session::Retried::failure;
};

// Lines of JSON, or events for who asks for them: what is printed as it comes, then the end.
awaitable<http::Response> stream_execution(Service& service, Call& call,
                                           std::shared_ptr<session::Session> session,
                                           sandbox::Command command, StreamOptions options) {
  const session::Who who = session->who(call.request_id);
  const session::Use use = co_await service.sessions.use(session);
  const auto process = co_await service.sessions.start(session, std::move(command), who);
  StreamEnd nothing_more;
  co_await stream_until_exit(call.exchange, process, options, std::move(nothing_more));
  co_return http::Response{};
}

awaitable<http::Response> execute(Service& service, Call& call) {
  const json::object body = co_await read_object(call.exchange);
  const auto id = find_text(body, "session_id");
  if (!id || !find_text(body, "command")) {
    throw http::HttpError{400, "session_id and command required"};
  }
  sandbox::Command command = read_command(body);
  check_notify_url(service, command);
  const auto asked = find_own_session(service, call, *id);
  if (!command.timeout) command.timeout = command_timeout(service, asked.get());
  const Milliseconds timeout = *command.timeout;
  const std::optional<StreamOptions> stream = read_stream_options(body);
  // A command that no session would run is refused before the session is looked for.
  if (!asked) {
    const session::Who nobody{.request = call.request_id, .tenant = call.principal.tenant};
    service.sessions.check(service.sessions.default_policy(), command, nobody);
  }
  CountedRetry retry{service, call.exchange.request()};
  const auto session = session_of(service, call, *id);
  if (stream) {
    http::Response streamed =
        co_await stream_execution(service, call, session, std::move(command), *stream);
    retry.succeeded();
    co_return streamed;
  }
  const session::Who who = session->who(call.request_id);
  const auto process = co_await service.sessions.execute(session, std::move(command), who);
  retry.succeeded();
  const json::object answer = render_execution(session->id, *process, timeout);
  co_return http::json_response(200, json::serialize(answer));
}

awaitable<http::Response> cleanup(Service& service, Call& call) {
  const json::object body = co_await read_object(call.exchange);
  const auto id = find_text(body, "session_id");
  if (!id) throw http::HttpError{400, "session_id required"};
  co_await remove_own_session(service, call, *id);
  json::object answer{{"status", "cleaned_up"}, {"session_id", *id}};
  co_return http::json_response(200, json::serialize(answer));
}

}  // namespace

void add_seed_routes(Router& router, Service& service) {
  router.add("POST", "/create_session",
             [&service](Call& call) { return create_session(service, call); });
  router.add("GET", "/get_session", [&service](Call& call) { return get_session(service, call); });
  router.add("POST", "/execute", [&service](Call& call) { return execute(service, call); });
  router.add("POST", "/cleanup", [&service](Call& call) { return cleanup(service, call); });
}

}  // namespace tb::api
