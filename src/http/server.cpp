// SPDX-License-Identifier: Apache-2.0
#include "http/server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <list>
#include <unordered_map>

#include "base/async.h"
#include "base/error.h"
#include "http/address.h"
#include "http/connection.h"
#include "http/serialize.h"
#include "http/unsent.h"

namespace tb::http {
namespace {

// Accepted in a row before other work gets its turn.
constexpr int kAcceptBatch = 64;
// A pause when the process or the machine is out of descriptors or memory.
constexpr auto kAcceptPause = 100ms;

constexpr std::string_view kFull =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
    "Connection: close\r\n\r\n";

// Says why, if the kernel takes it at once, and closes; who speaks TLS could not read it.
void turn_away(int fd, bool secure) {
  if (!secure) ::send(fd, kFull.data(), kFull.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::close(fd);
}

}  // namespace

class Server::Impl {
 public:
  Impl(asio::any_io_executor executor, ServerLimits limits, Handler handler, OnFailure on_failure)
      : executor_(executor),
        changed_(executor),
        tasks_(executor, [this](const std::string& name, std::exception_ptr failure) {
          if (!state_.closing && state_.on_failure) state_.on_failure(name, failure);
        }) {
    state_.limits = limits;
    state_.handler = std::move(handler);
    state_.on_failure = std::move(on_failure);
    state_.date = http_date(std::time(nullptr));
    tasks_.spawn("http tick", [this] { return tick(); });
  }

  void listen(int fd, Secure secure) {
    auto listener = listeners_.emplace(listeners_.end(), executor_, fd);
    listener->socket.non_blocking(true);  // One that was handed to us may block.
    if (!secure.hsts.empty()) state_.hsts = secure.hsts;
    listener->secure = std::move(secure);
    tasks_.spawn("http accept", [this, listener] { return accept(*listener); });
  }

  awaitable<void> close(Milliseconds drain) {
    state_.draining = true;
    boost::system::error_code ignored;
    for (Listener& listener : listeners_) listener.socket.close(ignored);
    for (auto& connection : connections_) connection->drain();
    const auto deadline = Clock::now() + drain;
    while (!connections_.empty() && Clock::now() < deadline) co_await changed_.wait();
    state_.closing = true;
    co_await tasks_.close();
    listeners_.clear();
  }

  std::size_t connections() const { return connections_.size(); }

 private:
  using Connections = std::list<std::shared_ptr<Connection>>;
  struct Listener {
    Listener(asio::any_io_executor executor, int fd) : socket(executor, fd) {}
    asio::posix::stream_descriptor socket;
    Secure secure;
  };

  awaitable<void> tick() {
    asio::steady_timer timer{executor_};
    for (;;) {
      timer.expires_after(state_.limits.tick);
      co_await timer.async_wait(asio::use_awaitable);
      state_.date = http_date(std::time(nullptr));
      const auto now = Clock::now();
      for (auto& connection : connections_) connection->tick(now);
      changed_.notify_all();
    }
  }

  awaitable<void> accept(Listener& listener) {
    asio::steady_timer pause{executor_};
    while (!state_.draining) {
      const auto [error] = co_await listener.socket.async_wait(
          asio::posix::descriptor_base::wait_read, asio::as_tuple(asio::use_awaitable));
      if (error) co_return;
      if (accept_batch(listener)) continue;
      pause.expires_after(kAcceptPause);
      co_await pause.async_wait(asio::use_awaitable);
    }
  }

  // Takes the connections that wait, but not too many at once. False when out of resources.
  bool accept_batch(Listener& listener) {
    for (int i = 0; i < kAcceptBatch; ++i) {
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      const int fd =
          ::accept4(listener.socket.native_handle(), reinterpret_cast<sockaddr*>(&address), &size,
                    SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd >= 0) {
        admit(fd, PeerAddress{address}, listener.secure);
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        return false;
      } else if (errno == EAGAIN) {
        return true;
      }
      // Other errors are those of the one connection (accept(2), "Error handling").
    }
    return true;
  }

  void admit(int fd, const PeerAddress& peer, const Secure& secure) {
    std::size_t& of_this_address = per_address_[peer.key()];
    const std::size_t most = state_.limits.connections_per_address;
    if (connections_.size() >= state_.limits.connections ||
        (most != 0 && !peer.key().empty() && of_this_address >= most)) {
      if (of_this_address == 0) per_address_.erase(peer.key());
      return turn_away(fd, secure.wrap != nullptr);
    }
    ++of_this_address;
    const int on = 1;  // Fails on a unix socket, which has no such delay.
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    keep_little_unsent(fd);
    std::unique_ptr<SecureLayer> layer;
    if (secure.wrap) {
      layer = secure.wrap(fd, peer.text());
      TB_ASSERT(layer);  // never in plain text instead
    }
    auto connection =
        std::make_shared<Connection>(executor_, fd, peer.text(), state_, std::move(layer));
    auto entry = connections_.insert(connections_.end(), std::move(connection));
    tasks_.spawn("http", [this, entry, key = peer.key()] { return run(entry, key); });
  }

  awaitable<void> run(Connections::iterator entry, std::string key) {
    const std::shared_ptr<Connection> connection = *entry;
    co_await connection->serve();
    connections_.erase(entry);
    if (auto count = per_address_.find(key); --count->second == 0) per_address_.erase(count);
    if (state_.draining) changed_.notify_all();
  }

  asio::any_io_executor executor_;
  ServerState state_;
  Signal changed_;  // The tick came, or a connection ended while draining.
  std::list<Listener> listeners_;
  Connections connections_;
  std::unordered_map<std::string, std::size_t> per_address_;
  TaskGroup tasks_;
};

Server::Server(asio::any_io_executor executor, ServerLimits limits, Handler handler,
               OnFailure on_failure)
    : impl_(std::make_unique<Impl>(executor, limits, std::move(handler), std::move(on_failure))) {}

Server::~Server() = default;

void Server::listen(int listening_fd, Secure secure) {
  impl_->listen(listening_fd, std::move(secure));
}

awaitable<void> Server::close(std::chrono::milliseconds drain) { return impl_->close(drain); }

std::size_t Server::connections() const { return impl_->connections(); }

}  // namespace tb::http
