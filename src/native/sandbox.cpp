// SPDX-License-Identifier: Apache-2.0
#include "native/sandbox.h"

#include <cerrno>

#include "os/fdpass.h"

namespace tb::native {
namespace {

constexpr std::size_t kInlineMessage = 48 << 10;
constexpr std::size_t kMaxQueued = 1024;  // messages

}  // namespace

NativeSandbox::NativeSandbox(asio::any_io_executor executor, std::string id, std::string label,
                             os::Fd control, Settings settings, asio::thread_pool& disk,
                             Measure measure)
    : GuestSandbox(executor, std::move(id), std::move(label), std::move(settings)),
      control_(executor, control.release()),
      files_([this, &disk] {
        return connect_helper(this->executor(), disk,
                              [this](os::Fd socket) { return pass_to_helper(std::move(socket)); });
      }),
      measure_(std::move(measure)) {}

void NativeSandbox::open() {
  load_earlier();
  listen();
}

void NativeSandbox::listen() {
  control_.async_wait(asio::posix::stream_descriptor::wait_read,
                      [weak = weak_from_this()](boost::system::error_code error) {
                        if (error) return;
                        if (auto sandbox = weak.lock())
                          static_cast<NativeSandbox&>(*sandbox).on_readable();
                      });
}

void NativeSandbox::on_readable() {
  static thread_local char buffer[os::kMaxPacket];  // nothing of it is kept
  for (int budget = 64; budget > 0; --budget) {
    os::Packet packet{buffer, sizeof buffer};
    const int result = os::receive_packet(control_.native_handle(), packet);
    if (result < 0 && errno == EAGAIN) break;
    if (result <= 0) return close();
    os::Fd passed[os::kMaxPassed];
    for (std::size_t i = 0; i < packet.fd_count; ++i) passed[i] = os::Fd{packet.fds[i]};
    receive({packet.data, packet.size}, {passed, packet.fd_count});
    if (!alive()) return;
  }
  listen();
}

bool NativeSandbox::connect(box::GuestProcess& process, const guest::Started& started,
                            std::span<os::Fd> passed) {
  if (passed.size() != guest::descriptors_of(started.streams)) return false;
  process.started(started, passed.data());
  return true;
}

void NativeSandbox::tell(std::string message) {
  if (!alive()) return;
  os::Fd file;
  if (message.size() > kInlineMessage) {
    file = os::sealed_memfd("message", message, false);
    message = std::string(1, static_cast<char>(guest::Message::by_file));
  }
  queue(std::move(message), std::move(file));
}

bool NativeSandbox::pass_to_helper(os::Fd socket) {
  if (!alive()) return false;
  queue(std::string(1, static_cast<char>(guest::Message::files)), std::move(socket));
  return alive();
}

void NativeSandbox::queue(std::string message, os::Fd file) {
  // A signal that still waits is the same one, as in the kernel: many of them are no queue.
  const bool signal = message.front() == static_cast<char>(guest::Message::signal);
  const auto same = [&](const auto& waiting) { return waiting.message == message; };
  if (signal && std::any_of(queue_.begin(), queue_.end(), same)) return;
  if (queue_.size() >= kMaxQueued) return close();  // it has not read for long
  queue_.push_back({std::move(message), std::move(file)});
  flush();
}

void NativeSandbox::flush() {
  while (!queue_.empty()) {
    const int fd = queue_.front().file.get();
    const int result =
        os::send_packet(control_.native_handle(), queue_.front().message, &fd, fd >= 0 ? 1 : 0);
    if (result == 0) break;
    queue_.pop_front();  // on an error too: its end arrives as end of file
  }
  if (queue_.empty() || flushing_) return;
  flushing_ = true;
  control_.async_wait(asio::posix::stream_descriptor::wait_write,
                      [weak = weak_from_this()](boost::system::error_code error) {
                        auto sandbox = std::static_pointer_cast<NativeSandbox>(weak.lock());
                        if (!sandbox) return;
                        sandbox->flushing_ = false;
                        if (!error) sandbox->flush();
                      });
}

void NativeSandbox::disconnect() {
  boost::system::error_code ignored;
  control_.close(ignored);
}

}  // namespace tb::native
