// SPDX-License-Identifier: Apache-2.0
#include "net/resolver.h"

#include <ares.h>
#include <netinet/in.h>
#include <sys/time.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstring>
#include <map>
#include <memory>

#include "base/async.h"
#include "base/error.h"

namespace tb::net {
namespace {

constexpr int kTimeout = 1500;  // milliseconds for a server to answer
constexpr int kTries = 2;

struct Library {
  Library() { TB_ASSERT(::ares_library_init(ARES_LIB_INIT_ALL) == ARES_SUCCESS); }
};

Address to_address(const sockaddr* raw) {
  if (raw->sa_family == AF_INET) {
    boost::asio::ip::address_v4::bytes_type bytes;
    std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in*>(raw)->sin_addr, bytes.size());
    return boost::asio::ip::address_v4{bytes};
  }
  boost::asio::ip::address_v6::bytes_type bytes;
  std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(raw)->sin6_addr, bytes.size());
  return boost::asio::ip::address_v6{bytes};
}

// One question. c-ares owns its sockets and says which of them it waits for; we wait for those.
class Query : public std::enable_shared_from_this<Query> {
 public:
  explicit Query(asio::any_io_executor executor) : executor_(executor), timer_(executor) {}
  ~Query() { close(); }
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  void open(const std::string& servers) {
    static const Library library;
    ares_options options{};
    options.timeout = kTimeout;
    options.tries = kTries;
    options.sock_state_cb = &Query::on_socket;
    options.sock_state_cb_data = this;
    const int mask = ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_SOCK_STATE_CB;
    require(::ares_init_options(&channel_, &options, mask));
    if (!servers.empty()) require(::ares_set_servers_ports_csv(channel_, servers.c_str()));
  }

  void ask(const std::string& host) {
    ares_addrinfo_hints hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    ::ares_getaddrinfo(channel_, host.c_str(), nullptr, &hints, &Query::on_answer, this);
    wait_time();
  }

  // Nothing of it is called afterwards.
  void close() {
    timer_.cancel();
    if (channel_) ::ares_destroy(std::exchange(channel_, nullptr));
    for (auto& [fd, socket] : sockets_) socket.descriptor.release();
    sockets_.clear();
  }

  bool over() const { return over_; }
  int status() const { return status_; }
  std::vector<Address>& found() { return found_; }
  Signal& done() { return done_; }

 private:
  static void require(int status) {
    if (status == ARES_SUCCESS) return;
    throw Error{Code::unavailable,
                std::string{"names can't be looked up: "} + ::ares_strerror(status)};
  }

  static void on_answer(void* self, int status, int, ares_addrinfo* result) {
    auto& query = *static_cast<Query*>(self);
    query.over_ = true;
    query.status_ = status;
    if (result) {
      for (const ares_addrinfo_node* node = result->nodes; node; node = node->ai_next) {
        query.found_.push_back(to_address(node->ai_addr));
      }
      ::ares_freeaddrinfo(result);
    }
    query.done_.notify_all();
  }

  struct Socket {
    Socket(const asio::any_io_executor& executor, int fd) : descriptor(executor, fd) {}
    asio::posix::stream_descriptor descriptor;
    bool writes = false;  // over TCP: c-ares has something to say
    bool waits_to_write = false;
  };

  static void on_socket(void* self, ares_socket_t fd, int readable, int writable) {
    auto& query = *static_cast<Query*>(self);
    if (!readable && !writable) {
      const auto socket = query.sockets_.find(fd);
      if (socket == query.sockets_.end()) return;
      socket->second.descriptor.release();  // before c-ares closes it
      query.sockets_.erase(socket);
      return;
    }
    const auto [socket, added] = query.sockets_.try_emplace(fd, query.executor_, fd);
    socket->second.writes = writable != 0;
    if (added) query.wait_readable(fd);
    query.wait_writable(fd);
  }

  void wait_readable(int fd) {
    const auto socket = sockets_.find(fd);
    if (socket == sockets_.end() || !channel_) return;
    auto ready = [self = weak_from_this(), fd](boost::system::error_code error) {
      const auto query = self.lock();
      if (error || !query || !query->channel_) return;
      ::ares_process_fd(query->channel_, fd, ARES_SOCKET_BAD);
      query->wait_readable(fd);
      query->wait_time();
    };
    socket->second.descriptor.async_wait(asio::posix::stream_descriptor::wait_read, ready);
  }

  void wait_writable(int fd) {
    const auto socket = sockets_.find(fd);
    if (socket == sockets_.end() || !channel_) return;
    if (!socket->second.writes || socket->second.waits_to_write) return;
    socket->second.waits_to_write = true;
    auto ready = [self = weak_from_this(), fd](boost::system::error_code error) {
      const auto query = self.lock();
      if (error || !query || !query->channel_) return;
      const auto found = query->sockets_.find(fd);
      if (found != query->sockets_.end()) found->second.waits_to_write = false;
      ::ares_process_fd(query->channel_, ARES_SOCKET_BAD, fd);
      query->wait_writable(fd);
      query->wait_time();
    };
    socket->second.descriptor.async_wait(asio::posix::stream_descriptor::wait_write, ready);
  }

  void wait_time() {
    if (over_ || !channel_) return;
    timeval room{};
    const timeval* next = ::ares_timeout(channel_, nullptr, &room);
    if (!next) return;
    timer_.expires_after(std::chrono::seconds{next->tv_sec} +
                         std::chrono::microseconds{next->tv_usec + 1000});
    timer_.async_wait([self = weak_from_this()](boost::system::error_code error) {
      const auto query = self.lock();
      if (error || !query || !query->channel_) return;
      ::ares_process_fd(query->channel_, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
      query->wait_time();
    });
  }

  asio::any_io_executor executor_;
  asio::steady_timer timer_;
  Signal done_{executor_};
  ares_channel channel_ = nullptr;
  std::map<int, Socket> sockets_;
  bool over_ = false;
  int status_ = ARES_ETIMEOUT;
  std::vector<Address> found_;
};

}  // namespace

bool good_dns_servers(const std::string& servers) {
  static const Library library;
  ares_channel channel = nullptr;
  if (::ares_init(&channel) != ARES_SUCCESS) return false;
  const int status = ::ares_set_servers_ports_csv(channel, servers.c_str());
  ::ares_destroy(channel);
  return status == ARES_SUCCESS && !servers.empty();
}

Resolver::Resolver(asio::any_io_executor executor, Settings settings)
    : executor_(executor), settings_(std::move(settings)) {}

awaitable<std::vector<Address>> Resolver::resolve(std::string host) {
  // A channel for each question: what changes in resolv.conf is seen.
  const auto query = std::make_shared<Query>(executor_);
  query->open(settings_.servers);
  query->ask(host);
  auto over = [&query] { return query->over(); };
  co_await query->done().until(over, settings_.limit);
  query->close();
  if (query->status() != ARES_SUCCESS || query->found().empty()) {
    const int status = query->over() ? query->status() : ARES_ETIMEOUT;
    throw Error{Code::unavailable,
                "the name " + host + " can't be looked up: " +
                    (status == ARES_SUCCESS ? "it has no address" : ::ares_strerror(status))};
  }
  co_return std::move(query->found());
}

}  // namespace tb::net
