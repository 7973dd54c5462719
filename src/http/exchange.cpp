// SPDX-License-Identifier: Apache-2.0
#include "http/exchange.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tb::http {
namespace {

constexpr std::size_t kPiece = 64 << 10;

}  // namespace

void Exchange::add_response_header(std::string name, std::string value) {
  added_headers_.push_back({std::move(name), std::move(value)});
}

awaitable<WebSocket*> Exchange::upgrade(const WebSocketOptions&) {
  throw Error{Code::internal, "this exchange can't be upgraded"};
}

awaitable<std::uint64_t> Exchange::write_by(const Send&, std::uint64_t) { co_return 0; }

awaitable<void> Exchange::switch_protocols(Response) {
  throw Error{Code::internal, "this exchange can't switch protocols"};
}

awaitable<std::size_t> Exchange::receive_raw(std::span<char>) {
  throw Error{Code::internal, "this exchange can't switch protocols"};
}

awaitable<void> Exchange::send_raw(std::string_view) {
  throw Error{Code::internal, "this exchange can't switch protocols"};
}

awaitable<std::string> Exchange::read_body(Bytes limit) {
  const std::optional<std::uint64_t> length = body_length();
  if (length && *length > limit.count) throw HttpError{413, "The request body is too large"};
  std::string body;
  while (!length || body.size() < *length) {
    const std::size_t filled = body.size();
    const std::uint64_t expected = length ? *length - filled : kPiece;
    body.resize(filled + static_cast<std::size_t>(std::min<std::uint64_t>(expected, kPiece)));
    const std::span<char> room{body.data() + filled, body.size() - filled};
    const std::size_t got = co_await read_some(room);
    body.resize(filled + got);
    if (got == 0) break;
    if (body.size() > limit.count) throw HttpError{413, "The request body is too large"};
  }
  co_return body;
}

}  // namespace tb::http
