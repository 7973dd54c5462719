// SPDX-License-Identifier: Apache-2.0
// For tests: a request and its answer without a socket.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "http/exchange.h"
#include "http/target.h"

namespace tb::http {

class TestExchange : public Exchange {
 public:
  TestExchange(std::string method, std::string target, std::string body = {})
      : body_(std::move(body)) {
    request_.method = std::move(method);
    request_.target = std::move(target);
    request_.headers.add("Host", "x");
    request_.id = "test-request";
    parse_target(request_);
  }

  void add_header(std::string_view name, std::string_view value) {
    request_.headers.add(name, value);
  }
  // The body comes in pieces of this size, and its length is not known before.
  void chunk(std::size_t piece) { piece_ = piece; }

  Response response;

  const Request& request() const override { return request_; }
  std::optional<std::uint64_t> body_length() const override {
    return piece_ ? std::nullopt : std::optional<std::uint64_t>{body_.size()};
  }
  awaitable<std::size_t> read_some(std::span<char> out) override {
    const std::size_t most = piece_ ? std::min(piece_, out.size()) : out.size();
    const std::size_t size = std::min(most, body_.size() - read_);
    std::memcpy(out.data(), body_.data() + read_, size);
    read_ += size;
    co_return size;
  }
  awaitable<void> respond(Response whole) override {
    TB_ASSERT(!answered_);
    answered_ = true;
    response = std::move(whole);
    for (Header& header : added_headers_) response.headers.push_back(std::move(header));
    co_return;
  }
  awaitable<void> begin(Response head, std::optional<std::uint64_t>) override {
    co_await respond(std::move(head));
  }
  awaitable<void> write(std::string_view bytes) override {
    response.body += bytes;
    co_return;
  }
  awaitable<void> end() override { co_return; }
  bool answered() const override { return answered_; }
  bool peer_closed() const override { return false; }
  void on_peer_closed(std::function<void()>) override {}

 private:
  Request request_;
  std::string body_;
  std::size_t read_ = 0;
  std::size_t piece_ = 0;
  bool answered_ = false;
};

}  // namespace tb::http
