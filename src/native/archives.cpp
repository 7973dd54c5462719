// SPDX-License-Identifier: Apache-2.0
// Archives go through a pipe between a helper in the sandbox, which makes or unpacks them, and us.
#include <signal.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/error.h"
#include "native/files.h"
#include "native/operations.h"

namespace tb::native {
namespace {

namespace wire = guest::files;

constexpr auto kStall = 30s;  // for one step of the helper, in a sandbox with little CPU

// A helper that wants no more is an answer (EPIPE), not our end.
void ignore_sigpipe() {
  static const auto before = ::signal(SIGPIPE, SIG_IGN);
  (void)before;
}

awaitable<bool> ready(FileSocket& pipe, FileSocket::wait_type what) {
  co_await pipe.async_wait(what, asio::as_tuple(asio::use_awaitable));
  co_return true;
}

awaitable<void> wait_for(FileSocket& pipe, FileSocket::wait_type what) {
  const auto came = co_await within(kStall, ready(pipe, what));
  if (!came) throw Error{Code::unavailable, "The sandbox does not go on with the archive"};
}

// Both ends of the talk with a helper that works on an archive.
struct Line {
  FileSocket socket;
  FileSocket pipe;
};

awaitable<void> begin(Line& line, wire::OperationRequest request) {
  OperationReply reply = co_await ask_operation(line.socket, std::move(request));
  if (reply.answer.type != wire::Told::stream) throw Error{Code::internal, "an archive: no stream"};
  if (!reply.fd) throw Error{Code::exhausted, "The server has too many files open"};
  os::set_nonblocking(reply.fd);
  line.pipe.assign(reply.fd.release());
}

class PipeReader : public sandbox::ArchiveReader {
 public:
  explicit PipeReader(Line line) : line_(std::move(line)) {}

  awaitable<std::size_t> read(std::span<char> out) override {
    for (;;) {
      const ssize_t got = ::read(line_.pipe.native_handle(), out.data(), out.size());
      if (got > 0) co_return static_cast<std::size_t>(got);
      if (got == 0) break;
      if (errno == EINTR) continue;
      if (errno != EAGAIN) throw SystemError{errno, "read an archive"};
      co_await wait_for(line_.pipe, FileSocket::wait_read);
    }
    // A helper that dies ends the pipe too: only its word makes the archive whole.
    co_await next_answer(line_.socket);
    co_return 0;
  }

 private:
  Line line_;
};

class PipeWriter : public sandbox::ArchiveWriter {
 public:
  explicit PipeWriter(Line line) : line_(std::move(line)) {}

  awaitable<bool> write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t put = ::write(line_.pipe.native_handle(), bytes.data(), bytes.size());
      if (put > 0) {
        bytes.remove_prefix(static_cast<std::size_t>(put));
      } else if (errno == EPIPE) {
        co_return false;
      } else if (errno == EAGAIN) {
        co_await wait_for(line_.pipe, FileSocket::wait_write);
      } else if (errno != EINTR) {
        throw SystemError{errno, "write an archive"};
      }
    }
    co_return true;
  }

  awaitable<sandbox::Unpacked> finish() override {
    line_.pipe.close();
    const OperationReply reply = co_await next_answer(line_.socket);
    co_return sandbox::Unpacked{reply.answer.files, Bytes{reply.answer.bytes}};
  }

 private:
  Line line_;
};

std::uint64_t left(std::uint64_t most, std::uint64_t used) { return most > used ? most - used : 0; }

}  // namespace

awaitable<std::unique_ptr<sandbox::ArchiveReader>> NativeFiles::archive(
    std::vector<std::string> paths, bool gzip, Bytes most) {
  Line line{FileSocket{executor_, dial().release()}, FileSocket{executor_}};
  wire::OperationRequest request;
  request.type = wire::Operation::archive;
  std::size_t size = 0;
  for (const std::string& path : paths) size += path.size() + 4;
  if (size > wire::kMaxPaths) {
    throw sandbox::FileError{sandbox::FileProblem::bad_name, "Too many paths for one archive"};
  }
  if (paths.size() == 1) {
    request.path = std::move(paths.front());
  } else {
    request.paths = std::move(paths);
  }
  request.flags = gzip ? wire::OperationRequest::gzip : 0u;
  request.bytes = most.count;
  co_await begin(line, std::move(request));
  co_return std::make_unique<PipeReader>(std::move(line));
}

awaitable<std::unique_ptr<sandbox::ArchiveWriter>> NativeFiles::unpack(std::string path,
                                                                       sandbox::FileLimits limits) {
  ignore_sigpipe();
  const sandbox::Usage used = co_await usage();
  Line line{FileSocket{executor_, dial().release()}, FileSocket{executor_}};
  wire::OperationRequest request;
  request.type = wire::Operation::unpack;
  request.path = std::move(path);
  request.file_bytes = limits.file.count;
  request.files = left(limits.count, used.files);
  request.bytes = left(limits.workspace.count, used.bytes.count);
  co_await begin(line, std::move(request));
  co_return std::make_unique<PipeWriter>(std::move(line));
}

}  // namespace tb::native
