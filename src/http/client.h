// SPDX-License-Identifier: Apache-2.0
// A small HTTP/1.1 client over TCP or a unix socket that keeps its connections.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "http/message.h"

namespace tb::http {

using boost::asio::awaitable;

struct Endpoint {
  std::string host;  // An IPv4 or IPv6 address or "localhost"; names are not looked up.
  std::uint16_t port = 0;
  std::string path;  // Of a unix socket; if not empty, used instead of host and port.

  static Endpoint tcp(std::string host, std::uint16_t port);
  static Endpoint unix_socket(std::string path);
  // "localhost" for a unix socket.
  std::string host_header() const;
  std::string text() const;  // "127.0.0.1:80", "[::1]:80" or "unix:/path".
};

struct ClientLimits {
  Bytes head{64 << 10};     // Of a response.
  Bytes body{64 << 20};     // Of a response.
  Milliseconds time = 60s;  // For a request, from its start to the response's end.
  std::size_t idle = 8;     // Connections kept for later.
};

// What became of a request to speak something else from now on.
struct Upgraded {
  Response response;
  int socket = -1;   // After a 101; the caller's to close. It does not block.
  std::string rest;  // Bytes of the new protocol that came with the response.
};

// One thread. Requests may run at the same time, each on a connection of its own. Must outlive
// the requests that it makes.
class Client {
 public:
  Client(boost::asio::any_io_executor executor, Endpoint endpoint, ClientLimits limits = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Sends a request and returns the whole response, whatever its status. Host and Content-Length
  // are added. If a kept connection turns out to be closed, a new one is made; a request that may
  // not be repeated (POST, PATCH) is never sent twice. Throws Error{unavailable} when the server
  // can't be reached, answers nonsense or takes too long, and Error{exhausted} when the response is
  // too large.
  awaitable<Response> request(std::string method, std::string target, std::vector<Header> headers,
                              std::string body);
  awaitable<Response> get(std::string target);
  // As get(), on a connection of its own that is closed once more than `most` of the body have
  // come: the body is what there was by then.
  awaitable<Response> get_beginning(std::string target, Bytes most);
  // The same on a connection of its own that is the caller's after a 101.
  awaitable<Upgraded> upgrade(std::string method, std::string target, std::string protocol,
                              std::vector<Header> headers, std::string body);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tb::http
