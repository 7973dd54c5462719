// SPDX-License-Identifier: Apache-2.0
// One connection of the client.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <string_view>

#include "http/client.h"
#include "http/read_buffer.h"
#include "http/response_parser.h"

namespace tb::http {

// Thrown when the server closed the connection before the first byte of a response: if it was a
// kept connection, the request has most likely not been seen.
struct LinkClosed {};

class Link {
 public:
  explicit Link(boost::asio::any_io_executor executor) : socket_(executor) {}

  awaitable<void> connect(const Endpoint& endpoint);

  // Sends `message` and reads the response into `parser`, or its beginning, once more than `most`
  // of its body have come; both must stay until the end.
  awaitable<void> exchange(std::string_view message, ResponseParser& parser,
                           Bytes most = Bytes{UINT64_MAX});

  // Sends all of it. What a server that has closed does not take is dropped: it may have answered.
  awaitable<void> send(std::string_view message);

  // Receives more into buffer(), at most up to `limit` bytes there; 0 at the end.
  awaitable<std::size_t> receive(std::size_t limit);

  // After an exchange that switched protocols: what they go on with.
  boost::asio::posix::stream_descriptor& socket() { return socket_; }
  ReadBuffer& buffer() { return buffer_; }

  // False when the server has closed it or has sent something unasked.
  bool usable();

 private:
  awaitable<void> wait_writable();

  boost::asio::posix::stream_descriptor socket_;
  ReadBuffer buffer_;
};

}  // namespace tb::http
