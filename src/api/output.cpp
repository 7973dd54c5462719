// SPDX-License-Identifier: Apache-2.0
// What a process printed, by byte offset: a page of it, or everything as it comes.
#include <boost/json.hpp>
#include <charconv>

#include "api/output_writer.h"
#include "api/processes.h"
#include "api/render.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr std::uint64_t kPage = 1 << 20;

std::uint64_t query_number(const Call& call, const char* name, std::uint64_t otherwise) {
  const std::string* text = call.exchange.request().find_query(name);
  return text ? read_number(*text, name) : otherwise;
}

const char* event_name(sandbox::Stream stream) {
  constexpr const char* kNames[] = {"stdout", "stderr", "output"};
  return kNames[static_cast<int>(stream)];
}

// Where to go on: after what the client has seen, or where it says.
std::uint64_t begin_at(const Call& call) {
  const auto seen = http::parse_last_event_id(call.exchange.request());
  return seen ? read_number(*seen, "Last-Event-ID") : query_number(call, "offset", 0);
}

// An id is the offset behind its event: who comes back with it misses and repeats nothing.
awaitable<http::Response> stream_events(Service& service, Call& call,
                                        std::shared_ptr<sandbox::Process> process) {
  const sandbox::Stream stream = read_stream(call);
  const std::uint64_t offset = begin_at(call);
  const std::string* const named = call.exchange.request().find_query("encoding");
  const Encoding encoding = named ? parse_encoding(*named) : Encoding::text;
  const auto session = get_own_session(service, call);
  const session::Use use = co_await service.sessions.use(session);
  http::EventStream events{call.exchange};
  co_await events.begin();
  auto take = [&events, encoding](const Piece& piece) -> awaitable<void> {
    if (piece.sign_of_life()) {
      co_await events.comment();
      co_return;
    }
    const std::string id = std::to_string(piece.end());
    const std::string data = render_piece(piece, encoding, {});
    co_await events.send(event_name(piece.stream), id, data);
  };
  PeerWatch watch{co_await asio::this_coro::executor, call.exchange};
  const Following how = watch.following(encoding);
  co_await follow(process, stream, offset, take, how);
  co_await process->wait();
  const std::string end = json::serialize(render_process(*process));
  co_await events.send("exit", {}, end);
  co_await events.end();
  co_return http::Response{};
}

// The bytes as they are; headers say where they begin and whether more can come.
awaitable<http::Response> output(Service& service, Call& call) {
  co_await recall_processes(service, call);
  const auto process = process_of(service, call);
  const http::Request& request = call.exchange.request();
  if (request.method == "GET" && wants_events(request)) {
    co_return co_await stream_events(service, call, process);
  }
  const sandbox::Stream stream = read_stream(call);
  const std::uint64_t asked = query_number(call, "offset", 0);
  const std::uint64_t limit = std::min(query_number(call, "limit", kPage), kPage);
  const std::uint64_t total = process->output_size(stream);
  const std::uint64_t offset = asked < total ? process->next_output(stream, asked) : asked;
  http::Response response;
  response.content_type = "application/octet-stream";
  response.body = process->read_output(stream, offset, limit);
  response.headers.push_back({"X-Output-Offset", std::to_string(offset)});
  response.headers.push_back({"X-Output-Total", std::to_string(total)});
  response.headers.push_back({"X-Process-State", process->exit() ? "exited" : "running"});
  co_return response;
}

}  // namespace

sandbox::Stream read_stream(const Call& call) {
  const std::string* name = call.exchange.request().find_query("stream");
  if (!name || *name == "all") return sandbox::Stream::all;
  if (*name == "stdout") return sandbox::Stream::out;
  if (*name == "stderr") return sandbox::Stream::err;
  throw http::HttpError{400, "\"stream\" must be stdout, stderr or all"};
}

std::uint64_t read_number(const std::string& text, const char* name) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw http::HttpError{400, std::string{"\""} + name + "\" must be a whole number"};
  }
  return value;
}

void add_output_routes(Router& router, Service& service) {
  router.add("GET", "/api/sessions/{}/processes/{}/output",
             [&service](Call& call) { return output(service, call); });
}

}  // namespace tb::api
