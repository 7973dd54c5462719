// SPDX-License-Identifier: Apache-2.0
// Bytes to requests, without sockets: a strict scanner first, Beast's parser second, and a request
// only where both see the same one. All errors are HttpError; after one, the connection is of no
// more use, since nobody knows where the next request would begin.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "http/chunked.h"
#include "http/head_scanner.h"
#include "http/limits.h"
#include "http/message.h"

namespace tb::http {

class RequestParser {
 public:
  explicit RequestParser(const HeadLimits& limits) : scanner_(limits) {}

  // Forgets the request, except for the peer, and makes ready for the next one.
  void reset();

  // `bytes` is all that has arrived since reset(). Returns how many of them the head takes, or 0
  // while it is incomplete. One empty line before the request line is skipped.
  std::size_t parse_head(std::string_view bytes);

  // What follows is valid once parse_head() has succeeded.
  const Request& request() const { return request_; }
  void set_peer(std::string peer) { request_.peer = std::move(peer); }
  void set_peer_name(std::string name) { request_.peer_name = std::move(name); }
  void set_id(std::string id) { request_.id = std::move(id); }
  bool keep_alive() const { return keep_alive_; }
  bool expects_continue() const { return expects_continue_; }
  // Empty when chunked.
  std::optional<std::uint64_t> body_length() const;
  // What is still to come; empty when chunked.
  std::optional<std::uint64_t> body_left() const;
  bool body_done() const { return chunked_ ? chunks_.done() : left_ == 0; }

  // Moves body bytes from `bytes` to `out`, until one of them is used up or the body is done.
  ChunkDecoder::Progress parse_body(std::string_view bytes, std::span<char> out);
  // So many bytes of a body that is not chunked went another way.
  void pass_body(std::size_t size) { left_ -= size; }

 private:
  void read_head(std::string_view head);
  void check_framing();

  HeadScanner scanner_;
  Request request_;
  ChunkDecoder chunks_;
  std::size_t skipped_ = 0;
  std::uint64_t length_ = 0;
  std::uint64_t left_ = 0;
  bool chunked_ = false;
  bool keep_alive_ = false;
  bool expects_continue_ = false;
};

}  // namespace tb::http
