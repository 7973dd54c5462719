// SPDX-License-Identifier: Apache-2.0
// A client of one Redis: one connection for all, which is made again when it is lost. Commands are
// pipelined as they come, and every one of them has an end: a reply, or an error in time.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "redis/protocol.h"

namespace tb::redis {

using boost::asio::awaitable;

struct Node {
  std::string host;  // an address or a name
  std::uint16_t port = 6379;
};

struct Settings {
  std::string host = "127.0.0.1";  // an address or a name
  std::uint16_t port = 6379;
  // In place of these: who knows where it is at the moment (redis/locate.h).
  std::vector<Node> sentinels = {};
  std::string master = {};  // its name there
  std::string sentinel_password = {};
  std::vector<Node> cluster = {};  // some nodes of a Redis Cluster
  std::string cluster_key = {};    // the one that has this key
  std::string user = {};           // empty: the default one
  std::string password = {};
  unsigned database = 0;
  bool tls = false;
  std::string authorities = {};  // PEM; empty: the system's
  Milliseconds connect = 2s;     // to be connected, and let in
  Milliseconds answer = 2s;      // for each command; then the connection is given up
  Milliseconds first_retry = 50ms;
  Milliseconds last_retry = 1s;
};

// A script that Redis is told once and then named by its hash.
class Script {
 public:
  explicit Script(std::string text);
  const std::string& text() const { return text_; }
  const std::string& hash() const { return hash_; }

 private:
  std::string text_;
  std::string hash_;
};

// One thread. open() first; close() and let it finish before destroying it.
class Client {
 public:
  Client(boost::asio::any_io_executor executor, Settings settings);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Begins to connect, and goes on trying. `changed` is told of each connection and of its loss.
  void open(std::function<void()> changed = {});
  awaitable<void> close();

  bool connected() const;
  // Of the Redis that we are connected to: another one after each of its restarts and after a
  // failover. Empty: not connected.
  const std::string& run_id() const;
  // Why we are not connected.
  const std::string& problem() const;
  // Counts everything that was sent.
  std::uint64_t commands_sent() const;

  // Throws Error{unavailable} when there is no connection, when it is lost before the reply (then
  // nobody knows whether the command was carried out), or when Redis refuses it.
  awaitable<Reply> call(Command command);
  // Sends all at once; the replies in their order. An error is one of the replies.
  awaitable<std::vector<Reply>> call_all(std::vector<Command> commands);
  // Throws as call() does.
  awaitable<Reply> run(const Script& script, std::vector<std::string> keys,
                       std::vector<std::string> arguments);

  // The command that runs a script by its hash, for call_all.
  static Command by_hash(const Script& script, std::vector<std::string> keys,
                         std::vector<std::string> arguments);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tb::redis
