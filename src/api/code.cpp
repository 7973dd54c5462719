// SPDX-License-Identifier: Apache-2.0
// Code of sessions: run in contexts that keep their state, which are made, listed, interrupted,
// restarted, deleted.
#include "api/code.h"

#include <boost/json.hpp>

#include "api/command_fields.h"
#include "api/errors.h"
#include "api/fields.h"
#include "api/files.h"
#include "api/output_writer.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "code/render.h"

namespace tb::api {
namespace json = boost::json;
namespace {

using code::Contexts;
using code::Event;
using code::render_context;
using code::render_outcome;

http::Response answer(int status, const json::object& body) {
  return http::json_response(status, json::serialize(body));
}

// The same as it comes: lines of JSON, or server-sent events.
class CodeWriter {
 public:
  explicit CodeWriter(http::Exchange& exchange) : exchange_(exchange) {
    if (wants_events(exchange.request())) events_.emplace(exchange);
  }

  awaitable<void> take(Event& event) {
    if (event.kind == Event::Kind::begun) co_await begin();
    if (event.kind == Event::Kind::silence) co_return co_await sign_of_life();
    json::object message = code::render_event(event);
    co_await tell(std::move(message));
  }

  awaitable<void> end(json::object outcome) {
    if (outcome["error"].is_object()) {
      json::object error = outcome["error"].get_object();
      error["type"] = "error";
      co_await tell(std::move(error));
    }
    outcome["type"] = "end_of_execution";
    co_await tell(std::move(outcome));
    if (events_) {
      co_await events_->end();
    } else {
      co_await exchange_.end();
    }
  }

 private:
  awaitable<void> begin() {
    if (events_) co_return co_await events_->begin();
    http::Response head;
    head.content_type = "application/x-ndjson";
    head.headers.push_back({"Cache-Control", "no-store"});
    head.headers.push_back({"X-Accel-Buffering", "no"});
    co_await exchange_.begin(std::move(head), std::nullopt);
  }

  // An empty line is none of JSON's, and readers skip it.
  awaitable<void> sign_of_life() {
    if (events_) co_return co_await events_->comment();
    co_await exchange_.write("\n");
  }

  // The name of an event is its type.
  awaitable<void> tell(json::object message) {
    const std::string type{message["type"].as_string()};
    if (events_) message.erase("type");
    std::string text = json::serialize(message);
    if (events_) co_return co_await events_->send(type, {}, text);
    text += '\n';
    co_await exchange_.write(text);
  }

  http::Exchange& exchange_;
  std::optional<http::EventStream> events_;
};

constexpr Bytes kLargestKept = 16_MiB;  // of a file that code wrote, unless somebody asks for it

// Pictures and documents that code showed and files that it wrote, which stay after the session's
// end.
class Produced {
 public:
  Produced(const Service& service, const session::Session& session)
      : artifacts_(service.artifacts), events_(service.sessions.events()), session_(session) {}

  void note(const Event& event) {
    if (!artifacts_ || event.kind != Event::Kind::result) return;
    for (const Kind& kind : kKinds) {
      const json::value* data = event.result.if_contains(kind.name);
      if (!data || !data->is_string()) continue;
      const std::string text{data->get_string()};
      std::optional<std::string> bytes = kind.coded ? from_base64(text) : std::optional{text};
      if (bytes) files_.emplace_back(kind.name, std::move(*bytes));
    }
  }

  // Returns their names. One that there is no room for is not kept: the answer has it anyway.
  awaitable<json::array> keep(unsigned count) {
    json::array names;
    for (auto& [ending, bytes] : files_) {
      storage::Artifact like = describe("cell-" + std::to_string(count) + "-" +
                                        std::to_string(names.size() + 1) + "." + ending);
      try {
        const storage::Artifact kept = co_await artifacts_->keep(std::move(like), std::move(bytes));
        names.emplace_back(kept.name);
        events_.artifact_kept(session_.who(), kept.id, kept.name, kept.size);
      } catch (const Error& error) {
        log(LogLevel::warning, "artifact_not_kept", {{"error", error.what()}});
      }
    }
    co_return names;
  }

  // The same of files of the workspace: as they are now, in place of what they were before.
  awaitable<void> keep_written(std::vector<std::string> paths, sandbox::Files& files,
                               json::array& names) {
    if (!artifacts_) co_return;
    for (const std::string& path : paths) {
      storage::Artifact like = describe(to_utf8(path.substr(path.rfind('/') + 1)));
      like.source = to_utf8(path);
      try {
        const auto file = co_await files.open(path);
        if (file->info().size > kLargestKept) continue;
        const storage::Artifact kept = co_await artifacts_->keep(std::move(like), *file);
        artifacts_->forget_earlier(kept);
        names.emplace_back(kept.name);
      } catch (const Error& error) {
        log(LogLevel::info, "artifact_not_kept", {{"error", error.what()}});
      }
    }
  }

 private:
  storage::Artifact describe(std::string name) const {
    storage::Artifact like;
    like.type = storage::media_type_of(name);
    like.name = std::move(name);
    like.origin = "code";
    like.session = session_.id;
    like.thread = session_.spec.thread;
    like.user = session_.spec.user;
    like.tenant = session_.spec.tenant;
    return like;
  }

  struct Kind {
    const char* name;  // of a result, and the file's ending
    bool coded;
  };
  static constexpr Kind kKinds[] = {{"png", true}, {"jpeg", true}, {"pdf", true}, {"svg", false}};

  storage::Artifacts* artifacts_;
  session::Events& events_;
  const session::Session& session_;
  std::vector<std::pair<std::string, std::string>> files_;
};

// While it lives, a client that goes away is noticed at once.
class WakeOnClose {
 public:
  WakeOnClose(asio::any_io_executor executor, http::Exchange& exchange)
      : wake(executor), exchange_(exchange) {
    exchange_.on_peer_closed([this] { wake(); });
  }
  ~WakeOnClose() { exchange_.on_peer_closed(nullptr); }
  WakeOnClose(const WakeOnClose&) = delete;
  WakeOnClose& operator=(const WakeOnClose&) = delete;
  Nudge wake;

 private:
  http::Exchange& exchange_;
};

code::Cell read_cell(const Service& service, const json::object& body,
                     const session::Session& session) {
  const auto text = find_text(body, "code");
  if (!text) throw http::HttpError{400, "\"code\" is missing"};
  code::Cell cell;
  cell.text = *text;
  json::object like = body;
  if (body.contains("env_vars")) like["env"] = body.at("env_vars");
  like.erase("tag");
  sandbox::Command command = read_command(like);
  cell.env = std::move(command.env);
  cell.timeout = command.timeout.value_or(command_timeout(service, &session));
  return cell;
}

// The one that is named, or the usual one of the language.
awaitable<std::shared_ptr<code::Context>> choose(Contexts& contexts,
                                                 std::shared_ptr<session::Session> session,
                                                 const json::object& body) {
  const auto id = find_text(body, "context_id");
  const auto named = find_text(body, "language");
  const code::Language language = code::language_named(named.value_or("python"));
  if (!id) co_return co_await contexts.usual(session, language);
  const auto context = co_await contexts.get(session, *id);
  if (named && context->spec.language != language) {
    throw http::HttpError{400, "the context " + context->spec.id + " runs " +
                                   std::string{code::name_of(context->spec.language)} + ", not " +
                                   *named};
  }
  co_return context;
}

awaitable<http::Response> run(Service& service, Contexts& contexts, Call& call,
                              std::shared_ptr<session::Session> session,
                              const json::object& request) {
  code::Cell cell = read_cell(service, request, *session);
  const bool streams = find_flag(request, "stream").value_or(false);
  const bool keeps = find_flag(request, "keep_files").value_or(true);
  const session::Who who = session->who(call.request_id);
  const session::Use use = co_await service.sessions.use(session);
  const auto context = co_await choose(contexts, session, request);
  Produced produced{service, *session};
  if (!streams) {
    code::Collector collector;
    code::Take take = [&](Event& event) {
      produced.note(event);
      return collector.take(event);
    };
    const code::Outcome outcome =
        co_await contexts.execute(session, context, std::move(cell), std::move(take), who);
    json::object body = collector.render(session->id, render_outcome(*context, outcome));
    json::array names = co_await produced.keep(outcome.count);
    if (keeps) co_await produced.keep_written(outcome.files, use.sandbox().files(), names);
    body["artifacts"] = std::move(names);
    co_return answer(200, body);
  }
  CodeWriter writer{call.exchange};
  WakeOnClose watch{co_await asio::this_coro::executor, call.exchange};
  code::Take take = [&](Event& event) {
    produced.note(event);
    return writer.take(event);
  };
  const code::Outcome outcome = co_await contexts.execute(session, context, std::move(cell),
                                                          std::move(take), who, &watch.wake);
  json::object told = render_outcome(*context, outcome);
  json::array names = co_await produced.keep(outcome.count);
  if (keeps) co_await produced.keep_written(outcome.files, use.sandbox().files(), names);
  told["artifacts"] = std::move(names);
  co_await writer.end(std::move(told));
  co_return http::Response{};
}

awaitable<http::Response> execute(Service& service, Contexts& contexts, Call& call) {
  const json::object body = co_await read_object(call.exchange);
  const auto session = get_own_session(service, call);
  co_return co_await run(service, contexts, call, session, body);
}

// As clients of the /api system ask for it.
awaitable<http::Response> execute_e2b(Service& service, Contexts& contexts, Call& call) {
  const json::object body = co_await read_object(call.exchange);
  const auto id = find_text(body, "session_id");
  if (!id || !find_text(body, "code")) {
    throw http::HttpError{400, "session_id and code required"};
  }
  const auto session = find_own_session(service, call, *id);
  if (!session) {
    const std::string shown = to_utf8(id->substr(0, 200));
    throw Refusal{404, "Session not found: " + shown, {{"session_id", shown}}};
  }
  co_return co_await run(service, contexts, call, session, body);
}

awaitable<http::Response> create(Service& service, Contexts& contexts, Call& call) {
  const json::object body = co_await read_object(call.exchange);
  sandbox::ShellSpec like = read_shell(body);
  code::ContextSpec spec;
  spec.language = code::language_named(find_text(body, "language").value_or("python"));
  spec.cwd = std::move(like.cwd);
  spec.env = std::move(like.env);
  const auto session = get_own_session(service, call);
  const session::Who who = session->who(call.request_id);
  const auto context = co_await contexts.create(session, std::move(spec), who);
  co_return answer(201, render_context(*context));
}

awaitable<http::Response> list(Service& service, Contexts& contexts, Call& call) {
  const auto session = get_own_session(service, call);
  json::array shown;
  for (const auto& context : co_await contexts.list(session)) {
    shown.push_back(render_context(*context));
  }
  co_return answer(200, {{"session_id", session->id}, {"contexts", std::move(shown)}});
}

awaitable<http::Response> show(Service& service, Contexts& contexts, Call& call) {
  const auto session = get_own_session(service, call);
  const auto context = co_await contexts.get(session, call.captured[1]);
  co_return answer(200, render_context(*context));
}

awaitable<http::Response> remove(Service& service, Contexts& contexts, Call& call) {
  const auto session = get_own_session(service, call);
  const auto context = co_await contexts.get(session, call.captured[1]);
  co_await contexts.remove(session, context);
  co_return answer(
      200, {{"session_id", session->id}, {"context_id", context->spec.id}, {"status", "deleted"}});
}

awaitable<http::Response> restart(Service& service, Contexts& contexts, Call& call) {
  const auto session = get_own_session(service, call);
  const session::Who who = session->who(call.request_id);
  const auto context = co_await contexts.get(session, call.captured[1]);
  co_await contexts.restart(session, context, who);
  co_return answer(200, render_context(*context));
}

awaitable<http::Response> interrupt(Service& service, Contexts& contexts, Call& call) {
  const auto session = get_own_session(service, call);
  const auto context = co_await contexts.get(session, call.captured[1]);
  contexts.interrupt(*context);
  co_return answer(200, render_context(*context));
}

}  // namespace

void add_code_routes(Router& router, Service& service, Contexts& contexts) {
  const auto add = [&](const char* method, const char* path, auto handler) {
    router.add(method, path, [&service, &contexts, handler](Call& call) {
      return handler(service, contexts, call);
    });
  };
  add("POST", "/api/sessions/{}/code", execute);
  add("POST", "/api/e2b/execute", execute_e2b);
  add("POST", "/api/sessions/{}/contexts", create);
  add("GET", "/api/sessions/{}/contexts", list);
  add("GET", "/api/sessions/{}/contexts/{}", show);
  add("DELETE", "/api/sessions/{}/contexts/{}", remove);
  add("POST", "/api/sessions/{}/contexts/{}/restart", restart);
  add("POST", "/api/sessions/{}/contexts/{}/interrupt", interrupt);
}

}  // namespace tb::api
