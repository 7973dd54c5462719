// SPDX-License-Identifier: Apache-2.0
// Processes of a session: started, listed, spoken to, ended; what they printed is in output.cpp.
#include "api/processes.h"

#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <csignal>

#include "api/command_fields.h"
#include "api/errors.h"
#include "api/fields.h"
#include "api/files.h"
#include "api/render.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr Bytes kMaxInput = 16_MiB;  // in one request
constexpr Milliseconds kPatience = 30s;

struct SignalName {
  std::string_view name;
  int number;
};
constexpr SignalName kSignals[] = {
    {"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"KILL", SIGKILL},  {"USR1", SIGUSR1},
    {"USR2", SIGUSR2}, {"TERM", SIGTERM}, {"CONT", SIGCONT}, {"STOP", SIGSTOP},  {"TSTP", SIGTSTP},
    {"ALRM", SIGALRM}, {"PIPE", SIGPIPE}, {"ABRT", SIGABRT}, {"WINCH", SIGWINCH}};

http::Response answer(int status, const json::object& body) {
  return http::json_response(status, json::serialize(body));
}

awaitable<http::Response> start(Service& service, Call& call) {
  const json::object body = co_await read_object(call.exchange);
  sandbox::Command command = read_process(body);
  check_notify_url(service, command);
  if (const auto key = call.exchange.request().headers.find("Idempotency-Key")) {
    if (key->size() > 256) throw http::HttpError{400, "Idempotency-Key is longer than 256 bytes"};
    command.key = *key;
  }
  const auto session = get_own_session(service, call);
  const session::Who who = session->who(call.request_id);
  const auto process = co_await service.sessions.start_once(session, std::move(command), who);
  co_return answer(201, render_process(*process));
}

awaitable<http::Response> list(Service& service, Call& call) {
  const auto session = get_own_session(service, call);
  json::array processes;
  if (const auto sandbox = session->known()) {
    for (const auto& process : sandbox->processes()) {
      processes.push_back(render_process(*process));
    }
  }
  co_return answer(200, {{"session_id", session->id}, {"processes", std::move(processes)}});
}

awaitable<http::Response> show(Service& service, Call& call) {
  co_return answer(200, render_process(*process_of(service, call)));
}

// Ends it with everything that it started, and waits for that.
awaitable<http::Response> end(Service& service, Call& call) {
  const auto process = process_of(service, call);
  process->kill();
  co_await process->wait();
  co_return answer(200, render_process(*process));
}

awaitable<http::Response> send_signal(Service& service, Call& call) {
  const json::object body = co_await read_object(call.exchange);
  const int number = read_signal(body);
  const bool tree = find_flag(body, "tree").value_or(true);
  const auto process = process_of(service, call);
  if (process->exit()) throw Error{Code::conflict, "the process has ended"};
  process->signal(number, tree);
  co_return answer(200, render_process(*process));
}

// How long to wait for a process that does not read.
Milliseconds read_patience(const Call& call) {
  const std::string* text = call.exchange.request().find_query("timeout");
  if (!text) return kPatience;
  double seconds = -1;
  const char* const end = text->data() + text->size();
  const auto [last, error] = std::from_chars(text->data(), end, seconds);
  if (error != std::errc{} || last != end || !(seconds >= 0) || seconds > 3600) {
    throw http::HttpError{400, "\"timeout\" must be seconds, from 0 to 3600"};
  }
  return Milliseconds{std::llround(seconds * 1000)};
}

// The bytes themselves, or JSON with `data`.
awaitable<http::Response> write_input(Service& service, Call& call) {
  const auto process = process_of(service, call);
  const Milliseconds patience = read_patience(call);
  const auto type = call.exchange.request().headers.find("Content-Type").value_or("");
  std::string bytes;
  if (type.starts_with("application/json")) {
    const json::object body = co_await read_object(call.exchange);
    const auto data = find_text(body, "data");
    if (!data) throw http::HttpError{400, "\"data\" is missing"};
    bytes = *data;
  } else {
    bytes = co_await call.exchange.read_body(kMaxInput);
  }
  const std::size_t size = bytes.size();
  const auto session = get_own_session(service, call);
  const session::Use use = co_await service.sessions.use(session);
  const std::size_t written = co_await process->offer_input(std::move(bytes), patience);
  if (written < size) {
    // No 503: clients that repeat those by themselves would write the beginning twice.
    throw Refusal{409,
                  "the process does not read its stdin: it took " + std::to_string(written) +
                      " of " + std::to_string(size) + " bytes; send the rest later",
                  {{"process_id", process->id()}, {"written", written}}};
  }
  co_return answer(200, {{"process_id", process->id()}, {"written", size}});
}

awaitable<http::Response> close_input(Service& service, Call& call) {
  const auto process = process_of(service, call);
  if (!process->input_open()) throw Error{Code::conflict, "stdin is closed already"};
  process->close_input();
  co_return answer(200, render_process(*process));
}

awaitable<http::Response> resize(Service& service, Call& call) {
  const json::object body = co_await read_object(call.exchange);
  const auto [rows, columns] = read_size(body);
  const auto process = process_of(service, call);
  process->resize(rows, columns);
  co_return answer(200, render_process(*process));
}

}  // namespace

int read_signal(const json::object& body) {
  const json::value* value = body.if_contains("signal");
  if (!value) throw http::HttpError{400, "\"signal\" is missing: a name such as TERM, or a number"};
  if (value->is_int64() && value->get_int64() > 0 && value->get_int64() <= 64) {
    return static_cast<int>(value->get_int64());
  }
  if (value->is_string()) {
    std::string_view name = value->get_string();
    if (name.starts_with("SIG")) name.remove_prefix(3);
    for (const SignalName& known : kSignals) {
      if (known.name == name) return known.number;
    }
  }
  throw http::HttpError{400, "\"signal\" must be a name such as TERM, or a number from 1 to 64"};
}

TerminalSize read_size(const json::object& body) {
  const auto rows = find_number(body, "rows");
  const auto columns = find_number(body, "cols");
  if (!rows || !columns || !(*rows >= 1) || !(*columns >= 1) || *rows > 10000 || *columns > 10000) {
    throw http::HttpError{400, "\"rows\" and \"cols\" must be from 1 to 10000"};
  }
  return {static_cast<unsigned>(*rows), static_cast<unsigned>(*columns)};
}

awaitable<void> recall_processes(Service& service, const Call& call) {
  const auto session = get_own_session(service, call);
  if (session->known()) co_return;
  try {
    const session::Use look = co_await service.sessions.look(session);
  } catch (const Error&) {
    // Then nothing ran in it that could be told of.
  }
}

std::shared_ptr<sandbox::Process> process_of(const Service& service, const Call& call) {
  const auto session = get_own_session(service, call);
  const std::uint64_t number = read_number(call.captured[1], "process id");
  const auto sandbox = session->known();
  auto process = sandbox && number <= UINT32_MAX
                     ? sandbox->find_process(static_cast<std::uint32_t>(number))
                     : nullptr;
  if (!process) throw http::HttpError{404, "no such process in this session"};
  return process;
}

void add_process_routes(Router& router, Service& service) {
  const auto add = [&](const char* method, const char* path, auto handler) {
    router.add(method, std::string{"/api/sessions/{}/processes"} + path,
               [&service, handler](Call& call) -> awaitable<http::Response> {
                 co_await recall_processes(service, call);
                 co_return co_await handler(service, call);
               });
  };
  add("POST", "", start);
  add("GET", "", list);
  add("GET", "/{}", show);
  add("DELETE", "/{}", end);
  add("POST", "/{}/signal", send_signal);
  add("POST", "/{}/stdin", write_input);
  add("POST", "/{}/stdin/close", close_input);
  add("POST", "/{}/resize", resize);
  add_output_routes(router, service);
  add_attach_routes(router, service);
}

}  // namespace tb::api
