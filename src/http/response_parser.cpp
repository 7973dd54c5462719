// SPDX-License-Identifier: Apache-2.0
#include "http/response_parser.h"

#include <algorithm>
#include <array>
#include <boost/beast/http/basic_parser.hpp>
#include <limits>

#include "base/error.h"
#include "http/serialize.h"

namespace tb::http {
namespace {

namespace beast = boost::beast::http;
using BeastError = boost::beast::error_code;
using BeastView = boost::beast::string_view;

[[noreturn]] void bad(const char* text) { throw Error{Code::unavailable, text}; }

class HeadReader final : public beast::basic_parser<false> {
 public:
  explicit HeadReader(Response& response) : response_(response) {
    header_limit(std::numeric_limits<std::uint32_t>::max());  // The caller has looked already.
    body_limit(boost::none);
  }

 private:
  void on_response_impl(int status, BeastView reason, int, BeastError&) override {
    response_.status = status;
    response_.reason.assign(reason.data(), reason.size());
  }
  void on_field_impl(beast::field name, BeastView text, BeastView value, BeastError&) override {
    if (name == beast::field::content_type) {
      response_.content_type.assign(value.data(), value.size());
    } else {
      response_.headers.push_back({{text.data(), text.size()}, {value.data(), value.size()}});
    }
  }
  void on_request_impl(beast::verb, BeastView, BeastView, int, BeastError&) override {}
  void on_header_impl(BeastError&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, BeastError&) override {}
  std::size_t on_body_impl(BeastView body, BeastError&) override { return body.size(); }
  void on_chunk_header_impl(std::uint64_t, BeastView, BeastError&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, BeastView body, BeastError&) override {
    return body.size();
  }
  void on_finish_impl(BeastError&) override {}

  Response& response_;
};

}  // namespace

void ResponseParser::check_room(std::uint64_t more) const {
  if (more > limits_.body.count - response_.body.size()) {
    throw Error{Code::exhausted, "the response body is too large"};
  }
}

std::size_t ResponseParser::parse_head(std::string_view bytes) {
  const std::size_t end = bytes.find("\r\n\r\n", scanned_);
  if (std::min(end, bytes.size()) > limits_.head.count) {
    throw Error{Code::exhausted, "the response head is too large"};
  }
  if (end == bytes.npos) {
    scanned_ = bytes.size() < 3 ? 0 : bytes.size() - 3;
    return 0;
  }
  scanned_ = 0;
  response_ = {};
  HeadReader reader{response_};
  BeastError error;
  const std::size_t used = reader.put(boost::asio::buffer(bytes.data(), end + 4), error);
  if (error || !reader.is_header_done() || used != end + 4) bad("the response is malformed");

  if (response_.status == 101) {
    if (!limits_.upgrade) bad("the server switches protocols unasked");
    state_ = State::done;
    return used;
  }
  if (response_.status / 100 == 1) return used;
  keep_alive_ = reader.keep_alive() && !reader.need_eof();
  left_ = reader.content_length() ? *reader.content_length() : 0;
  if (to_head_ || !status_has_body(response_.status)) {
    keep_alive_ = reader.keep_alive();
    state_ = State::done;
  } else if (reader.chunked()) {
    state_ = State::chunks;
  } else if (response_.find("transfer-encoding")) {
    bad("the response has an unknown transfer coding");
  } else if (reader.content_length()) {
    check_room(left_);
    state_ = left_ == 0 ? State::done : State::body;
  } else {
    keep_alive_ = false;
    state_ = State::until_close;
  }
  return used;
}

std::size_t ResponseParser::parse_body(std::string_view bytes) {
  const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), left_));
  response_.body.append(bytes.substr(0, size));
  left_ -= size;
  if (left_ == 0) state_ = State::done;
  return size;
}

std::size_t ResponseParser::parse_chunks(std::string_view bytes) {
  std::array<char, 16 << 10> piece;
  std::size_t used = 0;
  while (used < bytes.size() && !chunks_.done()) {
    ChunkDecoder::Progress progress;
    try {
      progress = chunks_.decode(bytes.substr(used), piece);
    } catch (const HttpError& error) {
      bad(error.what());
    }
    check_room(progress.produced);
    response_.body.append(piece.data(), progress.produced);
    used += progress.consumed;
  }
  if (chunks_.done()) state_ = State::done;
  return used;
}

std::size_t ResponseParser::parse(std::string_view bytes) {
  std::size_t used = 0;
  while (!done() && used < bytes.size()) {
    const std::string_view rest = bytes.substr(used);
    std::size_t step = 0;
    switch (state_) {
      case State::head: step = parse_head(rest); break;
      case State::body: step = parse_body(rest); break;
      case State::chunks: step = parse_chunks(rest); break;
      case State::until_close:
        check_room(rest.size());
        response_.body.append(rest);
        step = rest.size();
        break;
      case State::done: break;
    }
    if (step == 0) break;
    used += step;
  }
  return used;
}

void ResponseParser::finish() {
  if (state_ != State::until_close) bad("the connection ended within the response");
  state_ = State::done;
}

}  // namespace tb::http
