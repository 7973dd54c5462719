// SPDX-License-Identifier: Apache-2.0
#include "native/keeper_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/boottime.h"
#include "os/fdpass.h"

namespace tb::native {
namespace {

os::Fd connect(const std::string& state_dir) {
  const std::string path = state_dir + "/keeper.sock";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    throw Error{Code::invalid, "STATE_DIR is too long for a socket's path: " + path};
  }
  path.copy(address.sun_path, path.size());
  os::Fd socket{check(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), "socket")};
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    throw Error{Code::unavailable, "no keeper answers at " + path};
  }
  return socket;
}

}  // namespace

KeeperClient::KeeperClient(asio::any_io_executor executor, const std::string& state_dir)
    : executor_(executor),
      socket_(executor, connect(state_dir).release()),
      tasks_(executor, [this](const std::string&, std::exception_ptr) {
        fail_all("the connection to the keeper broke");
      }) {
  tasks_.spawn("keeper", [this] { return read_loop(); });
}

KeeperClient::~KeeperClient() = default;

awaitable<void> KeeperClient::close() { co_await tasks_.close(); }

void KeeperClient::fail_all(const std::string& why) {
  if (broken_) return;
  broken_ = true;
  for (auto& [number, answer] : waiting_) {
    answer->failure = std::make_exception_ptr(Error{Code::unavailable, why});
    answer->done = true;
    answer->arrived->notify_all();
  }
  waiting_.clear();
  if (lost_) lost_(stopping_);
}

awaitable<void> KeeperClient::read_loop() {
  std::vector<char> buffer(os::kMaxPacket);
  for (;;) {
    co_await socket_.async_wait(asio::posix::stream_descriptor::wait_read, asio::use_awaitable);
    for (;;) {
      os::Packet packet{buffer.data(), buffer.size()};
      const int result = os::receive_packet(socket_.native_handle(), packet);
      if (result < 0 && errno == EAGAIN) break;
      if (result <= 0) {
        fail_all("the keeper is gone");
        co_return;
      }
      receive({packet.data, packet.size}, os::Fd{packet.fd_count > 0 ? packet.fds[0] : -1});
    }
  }
}

void KeeperClient::receive(std::string_view packet, os::Fd fd) {
  Reader in{packet};
  const auto type = static_cast<jail::Message>(in.u8());
  const std::uint32_t number = in.u32();
  const std::string_view body = packet.substr(std::min<std::size_t>(5, packet.size()));
  if (type == jail::Message::gone) {
    const std::string id = in.bytes();
    if (gone_) gone_(id, in.u8() != 0);
    return;
  }
  if (type == jail::Message::wanted) {
    const std::string id = in.bytes();
    if (wanted_) wanted_(id);
    return;
  }
  if (type == jail::Message::stopping) stopping_ = true;
  const auto found = waiting_.find(number);
  if (found == waiting_.end()) return;
  std::shared_ptr<Answer> answer = found->second;
  if (type == jail::Message::item) {
    jail::Item item;
    if (jail::Item::decode(in, item)) answer->items.push_back(std::move(item));
    return;
  }
  if (type == jail::Message::volume) {
    jail::VolumeItem item;
    if (jail::VolumeItem::decode(in, item)) answer->volumes.push_back(std::move(item));
    return;
  }
  if (type == jail::Message::failed) {
    const auto code = static_cast<Code>(in.u8());
    answer->failure = std::make_exception_ptr(Error{code, in.bytes()});
  }
  answer->type = type;
  answer->body = body;
  answer->fd = std::move(fd);
  answer->done = true;
  waiting_.erase(found);
  answer->arrived->notify_all();
}

// The socket is ours alone and its buffer holds hundreds of packets: waiting here is rare.
void KeeperClient::send(std::string packet) {
  for (;;) {
    const int result = os::send_packet(socket_.native_handle(), packet);
    if (result == 1) return;
    if (result < 0) throw Error{Code::unavailable, "the keeper is gone"};
    pollfd poll{socket_.native_handle(), POLLOUT, 0};
    ::poll(&poll, 1, 1000);
  }
}

awaitable<std::shared_ptr<KeeperClient::Answer>> KeeperClient::ask(jail::Message type,
                                                                   std::string body) {
  if (broken_) throw Error{Code::unavailable, "the keeper is gone"};
  auto answer = std::make_shared<Answer>();
  answer->arrived = std::make_unique<Signal>(executor_);
  const std::uint32_t number = next_++;
  waiting_[number] = answer;
  Writer out;
  out.u8(static_cast<std::uint8_t>(type));
  out.u32(number);
  send(out.take() + body);
  while (!answer->done) co_await answer->arrived->wait();
  if (answer->failure) std::rethrow_exception(answer->failure);
  co_return answer;
}

awaitable<jail::Welcome> KeeperClient::hello() {
  auto answer = co_await ask(jail::Message::hello, {});
  jail::Welcome welcome;
  Reader in{answer->body};
  if (!jail::Welcome::decode(in, welcome) || welcome.version != jail::kVersion) {
    throw Error{Code::unavailable,
                "a keeper of another version runs: end it with `threadbox stop`"};
  }
  co_return welcome;
}

awaitable<os::Fd> KeeperClient::create(jail::Create create) {
  Writer out;
  create.encode(out);
  std::string body = out.take();
  auto answer = co_await ask(jail::Message::create, std::move(body));
  co_return std::move(answer->fd);
}

awaitable<os::Fd> KeeperClient::attach(std::string id) {
  Writer out;
  out.bytes(id);
  std::string body = out.take();
  auto answer = co_await ask(jail::Message::attach, std::move(body));
  co_return std::move(answer->fd);
}

awaitable<os::Fd> KeeperClient::join(std::string id) {
  Writer out;
  out.bytes(id);
  std::string body = out.take();
  auto answer = co_await ask(jail::Message::join, std::move(body));
  co_return std::move(answer->fd);
}

void KeeperClient::release(const std::string& id) {
  if (broken_) return;
  Writer out;
  out.u8(static_cast<std::uint8_t>(jail::Message::release));
  out.u32(0);
  out.bytes(id);
  send(out.take());
}

void KeeperClient::tell(const jail::Label& label) {
  if (broken_) return;
  Writer out;
  out.u8(static_cast<std::uint8_t>(jail::Message::label));
  out.u32(0);
  label.encode(out);
  send(out.take());
}

void KeeperClient::tell(const jail::Lease& lease) {
  if (broken_) return;
  jail::Lease said = lease;
  said.said_at = boottime_ms();
  Writer out;
  out.u8(static_cast<std::uint8_t>(jail::Message::lease));
  out.u32(0);
  said.encode(out);
  send(out.take());
}

awaitable<void> KeeperClient::destroy(std::string id, bool keep_files) {
  Writer out;
  out.bytes(id);
  out.u8(keep_files ? 1 : 0);
  std::string body = out.take();
  co_await ask(jail::Message::destroy, std::move(body));
}

awaitable<void> KeeperClient::rest(std::string id) {
  Writer out;
  out.bytes(id);
  std::string body = out.take();
  co_await ask(jail::Message::rest, std::move(body));
}

awaitable<std::vector<jail::Item>> KeeperClient::list() {
  auto answer = co_await ask(jail::Message::list, {});
  co_return std::move(answer->items);
}

awaitable<sandbox::Load> KeeperClient::measure(std::string id) {
  Writer out;
  out.bytes(id);
  std::string body = out.take();
  auto answer = co_await ask(jail::Message::measure, std::move(body));
  jail::Measured measured;
  Reader in{answer->body};
  sandbox::Load load;
  if (!jail::Measured::decode(in, measured)) co_return load;
  if (measured.known & jail::Measured::kMemory) load.memory = Bytes{measured.memory_bytes};
  if (measured.known & jail::Measured::kCpu) load.cpu = std::chrono::microseconds{measured.cpu_us};
  if (measured.known & jail::Measured::kProcesses) load.processes = measured.processes;
  co_return load;
}

awaitable<void> KeeperClient::make_volume(jail::MakeVolume volume) {
  Writer out;
  volume.encode(out);
  std::string body = out.take();
  co_await ask(jail::Message::make_volume, std::move(body));
}

awaitable<void> KeeperClient::remove_volume(std::string id) {
  Writer out;
  out.bytes(id);
  std::string body = out.take();
  co_await ask(jail::Message::remove_volume, std::move(body));
}

awaitable<std::vector<jail::VolumeItem>> KeeperClient::list_volumes(std::string label_begins) {
  Writer out;
  out.bytes(label_begins);
  std::string body = out.take();
  auto answer = co_await ask(jail::Message::list_volumes, std::move(body));
  co_return std::move(answer->volumes);
}

awaitable<void> KeeperClient::stop() { co_await ask(jail::Message::stop, {}); }

}  // namespace tb::native
