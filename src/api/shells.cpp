// SPDX-License-Identifier: Apache-2.0
// Shells of a session: opened, listed, given commands, interrupted, ended.
#include <boost/json.hpp>
#include <csignal>

#include "api/command_fields.h"
#include "api/errors.h"
#include "api/fields.h"
#include "api/files.h"
#include "api/output_writer.h"
#include "api/processes.h"
#include "api/render.h"
#include "api/service.h"
#include "base/iso8601.h"
#include "base/utf8.h"
#include "shell/runs.h"

namespace tb::api {
namespace json = boost::json;
namespace {

// What a snapshot brings back.
constexpr const char* kRestored[] = {"cwd",     "variables", "functions", "options",
                                     "aliases", "traps",     "umask"};

http::Response answer(int status, const json::object& body) {
  return http::json_response(status, json::serialize(body));
}

const char* name_of(sandbox::Shell::State state) {
  constexpr const char* kNames[] = {"waiting", "running", "dead"};
  return kNames[static_cast<int>(state)];
}

json::object render_shell(const sandbox::Shell& shell, const shell::Runs& runs) {
  const bool busy = shell.state() == sandbox::Shell::State::running;
  const json::value run = shell.run() == 0 ? json::value(nullptr) : json::value(shell.run());
  json::object object{{"shell_id", shell.id()},
                      {"state", name_of(shell.state())},
                      {"tag", to_utf8(shell.info().tag)},
                      {"cwd", to_utf8(shell.cwd())},
                      {"generation", shell.generation()},
                      {"running", busy ? run : json::value(nullptr)},
                      {"last_run", run},
                      {"waiting_runs", runs.waiting(shell)},
                      {"opened_at", iso8601(shell.info().started)},
                      {"last_end", nullptr}};
  const int pid = shell.info().pid;
  object["pid"] = pid == 0 ? json::value(nullptr) : json::value(pid);
  if (const auto& end = shell.last_end()) {
    object["last_end"] = json::object{
        {"exit_code", end->code},
        {"cause", sandbox::name_of(end->cause)},
        {"signal", end->signal == 0 ? json::value(nullptr) : json::value(end->signal)}};
  }
  return object;
}

json::object render_facts(const shell::Facts& facts) {
  json::array restored;
  for (const char* what : kRestored) {
    if (facts.restored) restored.push_back(what);
  }
  return {{"shell_id", facts.shell},        {"cwd", to_utf8(facts.cwd)},
          {"generation", facts.generation}, {"exited", facts.exited},
          {"respawned", facts.respawned},   {"restored", std::move(restored)}};
}

std::shared_ptr<sandbox::Shell> shell_of(const session::Session& session, const Call& call) {
  const std::uint64_t number = read_number(call.captured[1], "shell id");
  auto shell = session.sandbox && number <= UINT32_MAX
                   ? session.sandbox->find_shell(static_cast<std::uint32_t>(number))
                   : nullptr;
  if (!shell) throw http::HttpError{404, "no such shell in this session"};
  return shell;
}

awaitable<http::Response> open(Service& service, shell::Runs& runs, Call& call) {
  const json::object body = co_await read_object(call.exchange);
  sandbox::ShellSpec spec = read_shell(body);
  const auto session = get_own_session(service, call);
  const session::Who who = session->who(call.request_id);
  const auto shell = co_await service.sessions.open_shell(session, std::move(spec), who);
  co_return answer(201, render_shell(*shell, runs));
}

awaitable<http::Response> list(Service& service, shell::Runs& runs, Call& call) {
  const auto session = get_own_session(service, call);
  json::array shells;
  if (session->sandbox) {
    for (const auto& shell : session->sandbox->shells()) {
      shells.push_back(render_shell(*shell, runs));
    }
  }
  co_return answer(200, {{"session_id", session->id}, {"shells", std::move(shells)}});
}

awaitable<http::Response> show(Service& service, shell::Runs& runs, Call& call) {
  const auto session = get_own_session(service, call);
  co_return answer(200, render_shell(*shell_of(*session, call), runs));
}

// Ends it with everything that it started.
awaitable<http::Response> close(Service& service, shell::Runs&, Call& call) {
  const auto session = get_own_session(service, call);
  const auto shell = shell_of(*session, call);
  co_await shell->close();
  co_return answer(200,
                   {{"session_id", session->id}, {"shell_id", shell->id()}, {"status", "closed"}});
}

awaitable<http::Response> interrupt(Service& service, shell::Runs& runs, Call& call) {
  const auto session = get_own_session(service, call);
  const auto shell = shell_of(*session, call);
  const auto process = session->sandbox->find_process(shell->run());
  if (shell->state() != sandbox::Shell::State::running || !process || process->exit()) {
    throw Error{Code::conflict, "no command runs in the shell"};
  }
  process->signal(SIGINT, true);
  co_return answer(200, render_shell(*shell, runs));
}

awaitable<http::Response> run(Service& service, shell::Runs& runs, Call& call) {
  const json::object body = co_await read_object(call.exchange);
  if (!find_text(body, "command")) throw http::HttpError{400, "\"command\" is missing"};
  for (const char* other : {"cwd", "env", "stdin"}) {
    if (!body.contains(other)) continue;
    throw http::HttpError{
        400, std::string{"\""} + other + "\" is the shell's own: change it with a command"};
  }
  sandbox::Command command = read_command(body);
  check_notify_url(service, command);
  const std::optional<StreamOptions> stream = read_stream_options(body);
  const auto session = get_own_session(service, call);
  if (!command.timeout) command.timeout = command_timeout(service, session.get());
  const Milliseconds timeout = *command.timeout;
  const session::Who who = session->who(call.request_id);
  // Before it waits for its turn.
  service.sessions.check(session->policy, command, who, session->surroundings.variables);
  const auto shell = shell_of(*session, call);
  const session::Use use = co_await service.sessions.use(session);  // while it waits, too
  shell::Runs::Start start = [&service, session, who](sandbox::Command what) {
    return service.sessions.start(session, std::move(what), who);
  };
  const shell::Run begun = co_await runs.start(shell, std::move(command), std::move(start));
  const auto process = begun.process();
  if (stream) {
    StreamEnd at_end = [&begun] { return json::object{{"shell", render_facts(begun.facts())}}; };
    co_await stream_until_exit(call.exchange, process, *stream, std::move(at_end));
    co_return http::Response{};
  }
  co_await process->wait();
  json::object result = render_execution(session->id, *process, timeout);
  result["shell"] = render_facts(begun.facts());
  co_return answer(200, result);
}

}  // namespace

void add_shell_routes(Router& router, Service& service, shell::Runs& runs) {
  const auto add = [&](const char* method, const char* path, auto handler) {
    router.add(method, std::string{"/api/sessions/{}/shells"} + path,
               [&service, &runs, handler](Call& call) { return handler(service, runs, call); });
  };
  add("POST", "", open);
  add("GET", "", list);
  add("GET", "/{}", show);
  add("DELETE", "/{}", close);
  add("POST", "/{}/run", run);
  add("POST", "/{}/interrupt", interrupt);
}

}  // namespace tb::api
