// SPDX-License-Identifier: Apache-2.0
// Bytes to responses, for the client; without sockets.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/units.h"
#include "http/chunked.h"
#include "http/message.h"

namespace tb::http {

// Throws Error{unavailable} on a malformed response, Error{exhausted} on one beyond the limits.
class ResponseParser {
 public:
  struct Limits {
    Bytes head{64 << 10};
    Bytes body{64 << 20};
    bool upgrade = false;  // A 101 is welcome: it ends the response, and something else begins.
  };

  // The response to a HEAD request has no body, whatever its headers say.
  ResponseParser(Limits limits, bool to_head) : limits_(limits), to_head_(to_head) {}

  // Takes what it can of `bytes`, the input since the last call's end; returns how much that was.
  // Responses before the final one (100 Continue) are passed over.
  std::size_t parse(std::string_view bytes);

  // The input ended; completes a response that lasts until then, else throws.
  void finish();

  bool done() const { return state_ == State::done; }
  // Status and headers are known. What there is of the body may be taken out of response() as it
  // comes; the limit counts what is in it.
  bool has_head() const { return state_ != State::head; }
  // Whether the connection can carry another request; valid once done.
  bool keep_alive() const { return keep_alive_; }
  Response& response() { return response_; }

 private:
  enum class State { head, body, chunks, until_close, done };

  std::size_t parse_head(std::string_view bytes);
  std::size_t parse_body(std::string_view bytes);
  std::size_t parse_chunks(std::string_view bytes);
  void check_room(std::uint64_t more) const;

  Limits limits_;
  bool to_head_;
  State state_ = State::head;
  Response response_;
  ChunkDecoder chunks_;
  std::size_t scanned_ = 0;
  std::uint64_t left_ = 0;
  bool keep_alive_ = false;
};

}  // namespace tb::http
