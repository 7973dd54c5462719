// SPDX-License-Identifier: Apache-2.0
#include "api/output_writer.h"

#include "api/render.h"
#include "base/utf8.h"

namespace tb::api {
namespace json = boost::json;

bool wants_events(const http::Request& request) {
  const auto accept = request.headers.find("Accept").value_or("");
  return accept.find("text/event-stream") != std::string_view::npos;
}

awaitable<void> OutputWriter::begin(const sandbox::Process& process) {
  if (events_) {
    co_await events_->begin();
  } else {
    http::Response head;
    head.content_type = "application/x-ndjson";
    head.headers.push_back({"Cache-Control", "no-store"});
    head.headers.push_back({"X-Accel-Buffering", "no"});
    co_await exchange_.begin(std::move(head), std::nullopt);
  }
  json::object started{{"process_id", process.id()}};
  co_await tell("start", std::move(started));
}

awaitable<void> OutputWriter::write(const Piece& piece) {
  if (piece.bytes.empty() && piece.dropped == 0) {
    // A sign of life; an empty line is none of JSON's, and readers skip it.
    if (events_) {
      co_await events_->comment();
    } else {
      co_await exchange_.write("\n");
    }
    co_return;
  }
  json::object message{{"offset", piece.offset}, {"data", to_utf8(piece.bytes)}};
  if (piece.dropped > 0) message["dropped"] = piece.dropped;
  co_await tell(piece.stream == sandbox::Stream::err ? "stderr" : "stdout", std::move(message));
}

awaitable<void> OutputWriter::end(const sandbox::Process& process) {
  json::object message = render_process(process);
  co_await tell("exit", std::move(message));
  if (events_) {
    co_await events_->end();
  } else {
    co_await exchange_.end();
  }
}

awaitable<void> OutputWriter::tell(const char* type, json::object message) {
  if (!events_) message["type"] = type;
  std::string text = json::serialize(message);
  if (events_) {
    co_await events_->send(type, {}, text);
    co_return;
  }
  text += '\n';
  co_await exchange_.write(text);
}

}  // namespace tb::api
