// SPDX-License-Identifier: Apache-2.0
#include "api/output_writer.h"

#include "api/render.h"
#include "base/json_text.h"
#include "base/sha256.h"
#include "base/utf8.h"

namespace tb::api {
namespace json = boost::json;

bool wants_events(const http::Request& request) {
  const auto accept = request.headers.find("Accept").value_or("");
  return accept.find("text/event-stream") != std::string_view::npos;
}

Encoding parse_encoding(const std::string& name) {
  if (name == "text") return Encoding::text;
  if (name == "base64") return Encoding::base64;
  throw http::HttpError{400, "\"encoding\" must be text or base64"};
}

// By hand: there may be much of it, and it is copied once.
std::string render_piece(const Piece& piece, Encoding encoding, std::string_view type) {
  std::string out;
  out.reserve(piece.bytes.size() * 3 / 2 + 128);
  out += "{\"offset\":";
  out += std::to_string(piece.offset);
  out += ",\"data\":";
  if (encoding == Encoding::base64) {
    out.append("\"").append(base64(piece.bytes)).append("\",\"encoding\":\"base64\"");
  } else if (is_utf8(piece.bytes)) {
    append_json(out, piece.bytes);
  } else {
    append_json(out, to_utf8(piece.bytes));
  }
  if (piece.dropped > 0) out.append(",\"dropped\":").append(std::to_string(piece.dropped));
  if (!type.empty()) out.append(",\"type\":\"").append(type).append("\"");
  return out += '}';
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
  if (piece.sign_of_life()) {
    // A sign of life; an empty line is none of JSON's, and readers skip it.
    if (events_) {
      co_await events_->comment();
    } else {
      co_await exchange_.write("\n");
    }
    co_return;
  }
  const char* const type = piece.stream == sandbox::Stream::err ? "stderr" : "stdout";
  std::string text = render_piece(piece, encoding_, events_ ? "" : type);
  if (events_) {
    co_await events_->send(type, {}, text);
  } else {
    text += '\n';
    co_await exchange_.write(text);
  }
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
