// SPDX-License-Identifier: Apache-2.0
// The servers and tools that are connected to a keeper, and the answers that are on their way to
// them. A slow one waits in a queue of its own and holds nobody up.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "jail/wire.h"
#include "os/fd.h"

namespace tb::jail {

// Who wants an answer, and to which request.
struct Waiter {
  int client;
  std::uint32_t number;
  std::uint64_t connection = 0;  // a descriptor's number may be another's by then
};

class Clients {
 public:
  explicit Clients(const os::Fd& epoll) : epoll_(epoll) {}

  void add(os::Fd socket);
  void drop(int client);
  bool has(int client) const { return clients_.contains(client); }
  bool empty() const { return clients_.empty(); }

  // Connections that ended since the last time.
  std::vector<std::uint64_t> take_dropped() { return std::exchange(dropped_, {}); }
  bool is_connected(const Waiter& waiter) const;

  // For an answer that comes later.
  Waiter waiter(int client, std::uint32_t number) const;
  static Writer reply(Message type, std::uint32_t number);
  void send(int client, std::string packet, os::Fd passed = {});
  void done(const Waiter& waiter);
  void fail(const Waiter& waiter, Code code, const std::string& text);
  void tell_gone(const std::string& id, bool files_kept, const std::vector<Waiter>& asked = {});
  void tell_wanted(const std::string& id, std::uint64_t connection);
  void tell_stopping();
  void flush(int client);
  void flush_all();

 private:
  struct Waiting {
    std::string data;
    os::Fd fd;
  };
  struct Client {
    os::Fd socket;
    std::deque<Waiting> queue;
    std::size_t queued = 0;  // bytes in it
    std::uint64_t connection = 0;
  };
  void flush(Client& client);
  void send_to_all(const std::string& packet);

  const os::Fd& epoll_;
  std::map<int, Client> clients_;
  std::uint64_t next_connection_ = 1;
  std::vector<std::uint64_t> dropped_;
};

}  // namespace tb::jail
