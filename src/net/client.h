// SPDX-License-Identifier: Apache-2.0
// Requests over http and https to hosts outside: connections are kept and used again, answers are
// read as they come, and every wait has an end.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/async.h"
#include "base/error.h"
#include "base/units.h"
#include "http/message.h"
#include "http/response_parser.h"
#include "net/connection.h"
#include "net/resolver.h"

namespace tb::net {

// The request never left: whoever wants may send it again.
class NotSent : public Error {
 public:
  explicit NotSent(std::string why) : Error(Code::unavailable, std::move(why)) {}
};

struct Ask {
  std::string method = "GET";
  Url url;
  std::vector<http::Header> headers;
  std::string body = {};
  // In place of `body`: so many bytes, of which it gives the next ones.
  std::uint64_t length = 0;
  std::function<awaitable<std::string>()> next = {};
  Milliseconds write = 30s;   // for each 64 KiB of the request to be taken
  Milliseconds answer = 30s;  // for the head of the answer, once all is sent
  bool repeatable = false;    // doing it twice is like doing it once
};

class Client;

// An answer whose head is there. Dropped before its end, its connection is closed.
class Answer {
 public:
  Answer(Client& client, std::string key, std::unique_ptr<Connection> connection,
         http::ResponseParser::Limits limits, bool to_head);

  int status() const { return head_.status; }
  const std::string& content_type() const { return head_.content_type; }
  const std::string* find(std::string_view name) const { return head_.find(name); }
  // More of the body; empty at its end. Throws Error{unavailable} when it is cut off, or nothing
  // came for `quiet`.
  awaitable<std::string> read(Milliseconds quiet = 60s);
  // All of it; Error{exhausted} when that is more, Error{unavailable} when it takes longer.
  awaitable<std::string> read_all(Bytes most, Milliseconds whole = 2min);

 private:
  friend class Client;
  awaitable<bool> read_head();
  awaitable<bool> fill();
  void finish();

  Client& client_;
  std::string key_;
  std::unique_ptr<Connection> connection_;
  http::ResponseParser parser_;
  http::Response head_;
  std::string received_;
  bool heard_ = false;  // any byte
};

class Client {
 public:
  struct Settings {
    std::string dns_servers = {};
    std::string authorities = {};  // PEM; empty: the system's
    std::string authorities_setting = {};
    Milliseconds connect = 10s;
    Milliseconds idle = 25s;  // how long a connection waits for its next use
    std::size_t kept = 16;    // connections of a host that wait
  };
  // Throws Error{invalid} when there are no certificates in `authorities`.
  Client(asio::any_io_executor executor, Settings settings);

  // Returns when the head of the answer is there, whatever its status. Throws NotSent, or
  // Error{unavailable} when it is not known what became of the request.
  awaitable<std::unique_ptr<Answer>> send(Ask ask);

 private:
  friend class Answer;
  struct Waiting {
    std::unique_ptr<Connection> connection;
    std::chrono::steady_clock::time_point since;
  };
  std::unique_ptr<Connection> find_waiting(const std::string& key);
  awaitable<std::unique_ptr<Connection>> connect(const Url& url);
  awaitable<bool> open(Connection& connection, const Url& url);
  awaitable<std::unique_ptr<Answer>> exchange(Ask& ask, std::unique_ptr<Connection> connection,
                                              bool& heard);
  void keep(const std::string& key, std::unique_ptr<Connection> connection);

  asio::any_io_executor executor_;
  Settings settings_;
  Resolver resolver_;
  Tls tls_;
  std::map<std::string, std::vector<Waiting>> waiting_;  // by scheme, host and port
};

}  // namespace tb::net
