// SPDX-License-Identifier: Apache-2.0
#include "jail/clients.h"

#include <sys/epoll.h>

#include <algorithm>
#include <vector>

#include "os/fdpass.h"

namespace tb::jail {
namespace {

constexpr std::size_t kMaxQueued = 16 << 20;  // bytes; one who reads none of them is dropped

}  // namespace

void Clients::add(os::Fd socket) {
  const int fd = socket.get();
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  check(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
  clients_[fd].socket = std::move(socket);
  clients_[fd].connection = next_connection_++;
}

void Clients::drop(int client) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, client, nullptr);
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  dropped_.push_back(found->second.connection);
  clients_.erase(found);
}

bool Clients::is_connected(const Waiter& waiter) const {
  const auto found = clients_.find(waiter.client);
  return found != clients_.end() && found->second.connection == waiter.connection;
}

Writer Clients::reply(Message type, std::uint32_t number) {
  Writer out;
  out.u8(static_cast<std::uint8_t>(type));
  out.u32(number);
  return out;
}

Waiter Clients::waiter(int client, std::uint32_t number) const {
  const auto found = clients_.find(client);
  return {client, number, found == clients_.end() ? 0 : found->second.connection};
}

void Clients::done(const Waiter& waiter) {
  const auto found = clients_.find(waiter.client);
  if (found == clients_.end()) return;
  if (waiter.connection != 0 && waiter.connection != found->second.connection) return;
  send(waiter.client, reply(Message::done, waiter.number).take());
}

void Clients::fail(const Waiter& waiter, Code code, const std::string& text) {
  if (waiter.number == 0) return;  // nobody waits
  if (waiter.connection != 0 && !is_connected(waiter)) return;
  Writer out = reply(Message::failed, waiter.number);
  out.u8(static_cast<std::uint8_t>(code));
  out.bytes(text);
  send(waiter.client, out.take());
}

void Clients::tell_gone(const std::string& id, bool files_kept, const std::vector<Waiter>& asked) {
  Writer out = reply(Message::gone, 0);
  out.bytes(id);
  out.u8(files_kept ? 1 : 0);
  std::vector<int> others;
  for (const auto& [fd, client] : clients_) {
    const auto same = [&](const Waiter& waiter) { return waiter.connection == client.connection; };
    if (std::none_of(asked.begin(), asked.end(), same)) others.push_back(fd);
  }
  for (const int fd : others) send(fd, out.view());
}

void Clients::tell_wanted(const std::string& id, std::uint64_t connection) {
  Writer out = reply(Message::wanted, 0);
  out.bytes(id);
  for (const auto& [fd, client] : clients_) {
    if (client.connection == connection) return send(fd, out.view());
  }
}

void Clients::tell_stopping() { send_to_all(reply(Message::stopping, 0).view()); }

void Clients::send_to_all(const std::string& packet) {
  std::vector<int> all;  // sending may drop one
  for (const auto& [fd, client] : clients_) all.push_back(fd);
  for (const int fd : all) send(fd, packet);
}

void Clients::send(int client, std::string packet, os::Fd passed) {
  const auto found = clients_.find(client);
  if (found == clients_.end()) return;
  found->second.queued += packet.size() + sizeof(Waiting);
  found->second.queue.push_back({std::move(packet), std::move(passed)});
  if (found->second.queued > kMaxQueued) return drop(client);
  flush(found->second);
}

void Clients::flush(int client) {
  const auto found = clients_.find(client);
  if (found != clients_.end()) flush(found->second);
}

void Clients::flush_all() {
  for (auto& [fd, client] : clients_) flush(client);
}

void Clients::flush(Client& client) {
  const bool waited = client.queue.size() > 1;
  while (!client.queue.empty()) {
    const Waiting& next = client.queue.front();
    const int passed = next.fd.get();
    const int result =
        os::send_packet(client.socket.get(), next.data, &passed, passed >= 0 ? 1 : 0);
    if (result == 0) break;
    client.queued -= next.data.size() + sizeof(Waiting);
    client.queue.pop_front();  // on an error too: the end of file follows
  }
  if (!waited && client.queue.empty()) return;
  epoll_event event{};
  event.events = client.queue.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT;
  event.data.fd = client.socket.get();
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, client.socket.get(), &event);
}

}  // namespace tb::jail
