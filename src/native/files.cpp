// SPDX-License-Identifier: Apache-2.0
#include "native/files.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstring>

#include "guest/files_wire.h"
#include "native/operations.h"
#include "os/fdpass.h"

namespace tb::native {
namespace {

namespace wire = guest::files;
using sandbox::FileError;
using sandbox::FileInfo;
using sandbox::FileProblem;

constexpr auto kAnswer = 20s;  // for one step of the helper, in a sandbox with little CPU
constexpr std::uint64_t kMostCounted = 1000000;

struct Reply {
  wire::Answer answer;
  os::Fd fd;
};

// The helper runs our code, but what it passes is looked at before it is believed.
struct stat check_regular(const os::Fd& fd) {
  // A descriptor that we have no room for gets lost on the way.
  if (!fd) throw Error{Code::exhausted, "The server has too many files open"};
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    throw FileError{FileProblem::not_regular, "Not a regular file"};
  }
  return info;
}

}  // namespace

// Our end of a helper's socket. Closing it ends the helper.
class NativeFiles::Link {
 public:
  Link(asio::any_io_executor executor, os::Fd socket) : socket_(executor, socket.release()) {}

  awaitable<Reply> ask(wire::Request request) {
    if (os::send_packet(socket_.native_handle(), request.encode()) != 1) throw ended();
    co_return co_await next();
  }

  asio::posix::stream_descriptor& socket() { return socket_; }

  awaitable<Reply> next() {
    static thread_local char buffer[os::kMaxPacket];  // nothing of it is kept
    Reply reply;
    for (;;) {
      os::Packet packet{buffer, sizeof buffer};
      const int result = os::receive_packet(socket_.native_handle(), packet);
      if (result == 1) {
        if (packet.fd_count > 0) reply.fd = os::Fd{packet.fds[0]};
        for (std::size_t i = 1; i < packet.fd_count; ++i) ::close(packet.fds[i]);
        if (!wire::Answer::decode({packet.data, packet.size}, reply.answer)) throw ended();
        break;
      }
      if (result == 0 || errno != EAGAIN) throw ended();
      const auto readable = co_await within(kAnswer, wait());
      if (!readable) throw Error{Code::unavailable, "The sandbox does not answer about files"};
    }
    if (reply.answer.type == wire::Message::refused) {
      refuse_file(reply.answer.reason, reply.answer.number, {});
    }
    co_return reply;
  }

 private:
  static Error ended() {
    return Error{Code::unavailable,
                 "The sandbox can't work on files now: it has ended, or it is "
                 "at its limit of processes or memory"};
  }
  awaitable<bool> wait() {
    co_await socket_.async_wait(asio::posix::stream_descriptor::wait_read,
                                asio::as_tuple(asio::use_awaitable));
    co_return true;
  }

  asio::posix::stream_descriptor socket_;
};

class NativeFiles::Reading : public sandbox::OpenFile {
 public:
  Reading(asio::thread_pool& disk, FileInfo info, os::Fd fd)
      : disk_(disk), info_(std::move(info)), fd_(std::move(fd)) {}

  const FileInfo& info() const override { return info_; }

  awaitable<std::size_t> read(std::uint64_t offset, std::span<char> out) override {
    iovec target{out.data(), out.size()};
    // What is in memory comes at once; only a disk is worth another thread.
    ssize_t got = ::preadv2(fd_.get(), &target, 1, static_cast<off_t>(offset), RWF_NOWAIT);
    if (got < 0) {
      auto work = [fd = fd_.get(), out, offset] {
        return ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
      };
      got = co_await on_pool(disk_, work);
    }
    if (got < 0) throw Error{Code::internal, "read a file of a sandbox"};
    co_return static_cast<std::size_t>(got);
  }

 private:
  asio::thread_pool& disk_;
  FileInfo info_;
  os::Fd fd_;
};

class NativeFiles::Writing : public sandbox::NewFile {
 public:
  Writing(asio::thread_pool& disk, std::unique_ptr<Link> link, sandbox::Usage used, os::Fd fd)
      : disk_(disk), link_(std::move(link)), used_(used), fd_(std::move(fd)) {}

  const sandbox::Usage& used() const override { return used_; }

  awaitable<void> write(std::string_view bytes) override {
    auto work = [fd = fd_.get(), bytes]() mutable {
      while (!bytes.empty()) {
        const ssize_t put = ::write(fd, bytes.data(), bytes.size());
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return errno;
        bytes.remove_prefix(static_cast<std::size_t>(put));
      }
      return 0;
    };
    const int failed = co_await on_pool(disk_, work);
    if (failed == ENOSPC || failed == EDQUOT || failed == EFBIG) {
      throw FileError{FileProblem::full, "The workspace is full"};
    }
    if (failed != 0) throw SystemError{failed, "write a file of a sandbox"};
  }

  awaitable<FileInfo> commit(std::string path) override {
    wire::Request request;
    request.type = wire::Message::commit;
    request.path = std::move(path);
    const Reply reply = co_await link_->ask(std::move(request));
    if (reply.answer.entries.empty()) throw Error{Code::internal, "a commit without a file"};
    co_return to_info(reply.answer.entries.front());
  }

  awaitable<sandbox::Named> commit_as(std::string path, sandbox::Naming naming) override {
    wire::OperationRequest request;
    request.type = wire::Operation::commit;
    request.path = std::move(path);
    request.other = std::move(naming.replaces);
    request.flags = (naming.exclusive ? wire::OperationRequest::exclusive : 0u) |
                    (naming.append ? wire::OperationRequest::append : 0u) |
                    (naming.mode ? wire::OperationRequest::set_mode : 0u);
    request.mode = naming.mode.value_or(0);
    request.file_bytes = naming.most.count;
    const OperationReply reply = co_await ask_operation(link_->socket(), std::move(request));
    co_return sandbox::Named{only_item(reply), reply.answer.complete != 0};
  }

 private:
  asio::thread_pool& disk_;
  std::unique_ptr<Link> link_;
  sandbox::Usage used_;
  os::Fd fd_;
};

os::Fd NativeFiles::dial() {
  int ends[2];
  check(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "socketpair");
  os::Fd ours{ends[0]};
  os::Fd theirs{ends[1]};
  // Only our end: the helper waits in the kernel for each request, and on a slow reader.
  check(::fcntl(ours.get(), F_SETFL, O_NONBLOCK), "fcntl");
  if (!pass_(std::move(theirs))) throw Error{Code::unavailable, "the sandbox is gone"};
  return ours;
}

std::unique_ptr<NativeFiles::Link> NativeFiles::connect() {
  return std::make_unique<Link>(executor_, dial());
}

awaitable<std::unique_ptr<sandbox::OpenFile>> NativeFiles::open(std::string path) {
  const std::unique_ptr<Link> link = connect();
  wire::Request request;
  request.type = wire::Message::open;
  request.path = std::move(path);
  Reply reply = co_await link->ask(std::move(request));
  const struct stat found = check_regular(reply.fd);
  FileInfo info = reply.answer.entries.empty() ? FileInfo{} : to_info(reply.answer.entries.front());
  info.size = Bytes{static_cast<std::uint64_t>(found.st_size)};
  info.version = wire::version_of(found);
  co_return std::make_unique<Reading>(disk_, std::move(info), std::move(reply.fd));
}

awaitable<std::unique_ptr<sandbox::NewFile>> NativeFiles::create() {
  std::unique_ptr<Link> link = connect();
  // By the same helper: each is a process of the sandbox, and those have a limit.
  const sandbox::Usage used = co_await usage_by(*link);
  wire::Request request;
  request.type = wire::Message::create;
  Reply reply = co_await link->ask(std::move(request));
  check_regular(reply.fd);
  co_return std::make_unique<Writing>(disk_, std::move(link), used, std::move(reply.fd));
}

awaitable<sandbox::Listing> NativeFiles::list(std::string path, std::size_t most) {
  const std::unique_ptr<Link> link = connect();
  wire::Request request;
  request.type = wire::Message::list;
  request.path = std::move(path);
  request.most = most;
  sandbox::Listing listing;
  Reply reply = co_await link->ask(std::move(request));
  while (reply.answer.type == wire::Message::entries) {
    for (const wire::Entry& entry : reply.answer.entries) listing.files.push_back(to_info(entry));
    if (listing.files.size() > most) throw Error{Code::internal, "a listing without end"};
    reply = co_await link->next();
  }
  listing.complete = reply.answer.complete != 0;
  co_return listing;
}

awaitable<sandbox::Usage> NativeFiles::usage() {
  const std::unique_ptr<Link> link = connect();
  co_return co_await usage_by(*link);
}

awaitable<sandbox::Usage> NativeFiles::usage_by(Link& link) {
  wire::Request request;
  request.type = wire::Message::usage;
  request.most = kMostCounted;
  const Reply reply = co_await link.ask(std::move(request));
  co_return sandbox::Usage{reply.answer.files, Bytes{reply.answer.bytes}};
}

}  // namespace tb::native
