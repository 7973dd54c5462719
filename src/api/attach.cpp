// SPDX-License-Identifier: Apache-2.0
// A WebSocket to a process: bytes in binary frames both ways, everything else as JSON in text
// frames. Any number may watch; each reads from the stored output, so none holds up another.
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/json.hpp>

#include "api/command_fields.h"
#include "api/errors.h"
#include "api/fields.h"
#include "api/follow.h"
#include "api/processes.h"
#include "api/render.h"
#include "http/origin.h"
#include "http/websocket.h"
#include "http/websocket_handshake.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr int kPolicyViolation = 1008;
// A client that types faster than the process reads is slowed down. One that does not read at all
// must not keep us from a signal, or from noticing that the client is gone: the bytes stay queued.
constexpr std::chrono::milliseconds kPatience = 500ms;

// Its output was dropped before it took it.
class TooSlow : public std::exception {};

class Attachment {
 public:
  Attachment(http::WebSocket& socket, std::shared_ptr<sandbox::Process> process)
      : socket_(socket), process_(std::move(process)) {}

  awaitable<void> run(sandbox::Stream stream, std::uint64_t offset) {
    using namespace asio::experimental::awaitable_operators;
    json::object hello = render_process(*process_);
    hello["type"] = "attached";
    hello["offset"] = offset;
    co_await tell(std::move(hello));
    auto watching = until_end(watch(stream, offset));
    auto listening = until_end(listen());
    co_await (std::move(watching) || std::move(listening));
    bool late = false;
    try {
      if (failure_) std::rethrow_exception(failure_);
    } catch (const TooSlow&) {
      late = true;
    }
    const std::string reason = "too slow: come back with offset=" + std::to_string(sent_);
    if (late) co_await socket_.close(kPolicyViolation, reason);
  }

 private:
  // The end of one is the end of both. `||` by itself waits for a success: one that failed, because
  // the client is gone or too slow, would leave the other one behind.
  awaitable<void> until_end(awaitable<void> task) {
    std::exception_ptr failure;
    try {
      co_await std::move(task);
    } catch (...) {
      failure = std::current_exception();
    }
    if (!over_) failure_ = failure;  // what the other one throws is that it was cancelled
    over_ = true;
  }

  awaitable<void> tell(json::object message) {
    const std::string text = json::serialize(message);
    co_await socket_.send_text(text);
  }

  awaitable<void> watch(sandbox::Stream stream, std::uint64_t offset) {
    sent_ = offset;
    bool begun = false;  // what was gone before it came is not its fault
    auto take = [this, &begun](const Piece& piece) -> awaitable<void> {
      if (piece.dropped > 0 && begun) throw TooSlow{};
      begun = true;
      if (piece.dropped > 0) {
        json::object gap{{"type", "offset"}, {"offset", piece.offset}, {"dropped", piece.dropped}};
        co_await tell(std::move(gap));
      }
      if (piece.file) {
        http::FileBytes bytes;
        bytes.file = piece.file->file;
        bytes.offset = piece.file->offset;
        bytes.size = piece.file->size;
        co_await socket_.send_binary_file(bytes);
      } else if (!piece.bytes.empty()) {
        co_await socket_.send_binary(piece.bytes);
      }
      sent_ = piece.end();
    };
    Following how;
    how.cut = Cut::in_file;  // no nudge: listen() notices who leaves
    co_await follow(process_, stream, offset, take, how);
    co_await process_->wait();
    json::object end = render_process(*process_);
    end["type"] = "exit";
    end["offset"] = sent_;
    co_await tell(std::move(end));
    co_await socket_.close(1000, "the process has ended");
  }

  awaitable<bool> type_in(std::string bytes) {
    co_await process_->write_input(std::move(bytes));
    co_return true;
  }

  awaitable<void> listen() {
    while (std::optional<http::WebSocket::Message> message = co_await socket_.receive()) {
      std::string problem;
      try {
        if (message->text) {
          obey(message->data);
        } else {
          auto typing = type_in(std::move(message->data));
          co_await within(kPatience, std::move(typing));
        }
      } catch (const Error& error) {
        problem = error.what();
      } catch (const http::HttpError& error) {
        problem = error.text();
      }
      if (problem.empty()) continue;
      json::object refusal{{"type", "error"}, {"error", problem}};
      co_await tell(std::move(refusal));
    }
  }

  void obey(const std::string& text) {
    boost::system::error_code failed;
    const json::value value = json::parse(text, failed);
    const json::object* message = failed ? nullptr : value.if_object();
    const json::value* type = message ? message->if_contains("type") : nullptr;
    if (!type || !type->is_string()) {
      throw Error{Code::invalid, "a text frame must be a JSON object with a \"type\""};
    }
    if (*type == "resize") {
      const auto [rows, columns] = read_size(*message);
      process_->resize(rows, columns);
    } else if (*type == "signal") {
      process_->signal(read_signal(*message), find_flag(*message, "tree").value_or(true));
    } else if (*type == "stdin_close") {
      process_->close_input();
    } else {
      throw Error{Code::invalid, "\"type\" must be resize, signal or stdin_close"};
    }
  }

  http::WebSocket& socket_;
  std::shared_ptr<sandbox::Process> process_;
  std::uint64_t sent_ = 0;
  bool over_ = false;
  std::exception_ptr failure_;  // of the one that ended first
};

void check_origin(const Service& service, const Call& call) {
  if (http::same_origin_or_allowed(call.exchange.request(), service.origins)) return;
  throw http::HttpError{403, "pages of this origin may not open WebSockets here"};
}

awaitable<http::Response> attach_to(Service& service, Call& call,
                                    std::shared_ptr<sandbox::Process> process) {
  const sandbox::Stream stream = read_stream(call);
  const std::string* text = call.exchange.request().find_query("offset");
  const std::uint64_t offset = text ? read_number(*text, "offset") : 0;
  const auto session = get_own_session(service, call);
  const session::Use use = co_await service.sessions.use(session);
  http::WebSocketOptions options;
  // For pages, which offer their token as another one (auth/authenticator.h).
  options.protocols.emplace_back("threadbox");
  http::WebSocket* socket = co_await call.exchange.upgrade(options);
  Attachment attachment{*socket, std::move(process)};
  co_await attachment.run(stream, offset);
  http::Response upgraded;
  upgraded.status = 101;
  co_return upgraded;
}

awaitable<http::Response> attach(Service& service, Call& call) {
  co_await recall_processes(service, call);
  check_origin(service, call);
  co_return co_await attach_to(service, call, process_of(service, call));
}

// A command as text, or all the fields of a process as JSON.
sandbox::Command read_start(const Call& call) {
  const std::string* start = call.exchange.request().find_query("start");
  if (!start) throw http::HttpError{400, "\"start\" is missing: a command, or JSON that has one"};
  if (!start->starts_with("{")) return read_process({{"command", *start}, {"stdin_open", true}});
  boost::system::error_code failed;
  const json::value value = json::parse(*start, failed);
  if (failed || !value.is_object()) throw http::HttpError{400, "\"start\" is not valid JSON"};
  return read_process(value.get_object());
}

awaitable<http::Response> start_and_attach(Service& service, Call& call) {
  check_origin(service, call);
  const auto session = get_own_session(service, call);
  const session::Who who = session->who(call.request_id);
  sandbox::Command command = read_start(call);
  check_notify_url(service, command);
  // Before anything starts: an image on a page of another site is a GET without an origin.
  http::accept_websocket(call.exchange.request(), {});
  auto process = co_await service.sessions.start_once(session, std::move(command), who);
  co_return co_await attach_to(service, call, std::move(process));
}

}  // namespace

void add_attach_routes(Router& router, Service& service) {
  router.add("GET", "/api/sessions/{}/processes/{}/attach",
             [&service](Call& call) { return attach(service, call); });
  router.add("GET", "/api/sessions/{}/attach",
             [&service](Call& call) { return start_and_attach(service, call); });
}

}  // namespace tb::api
