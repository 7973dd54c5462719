// SPDX-License-Identifier: Apache-2.0
// Archives go through a pipe between a helper in the sandbox, which makes or unpacks them, and us.
#include "base/error.h"
#include "box/files.h"
#include "box/operations.h"

namespace tb::box {
namespace {

namespace wire = guest::files;

// Both ways to a helper that works on an archive.
struct Line {
  std::unique_ptr<HelperLink> link;
  std::unique_ptr<HelperFile> pipe;
};

awaitable<void> begin(Line& line, wire::OperationRequest request) {
  OperationReply reply = co_await ask_operation(*line.link, std::move(request));
  if (reply.answer.type != wire::Told::stream) throw Error{Code::internal, "an archive: no stream"};
  if (!reply.file) throw Error{Code::exhausted, "The server has too many files open"};
  line.pipe = std::move(reply.file);
}

class PipeReader : public sandbox::ArchiveReader {
 public:
  explicit PipeReader(Line line) : line_(std::move(line)) {}

  awaitable<std::size_t> read(std::span<char> out) override {
    const std::size_t got = co_await line_.pipe->take(out);
    // A helper that dies ends the pipe too: only its word makes the archive whole.
    if (got == 0) co_await next_answer(*line_.link);
    co_return got;
  }

 private:
  Line line_;
};

class PipeWriter : public sandbox::ArchiveWriter {
 public:
  explicit PipeWriter(Line line) : line_(std::move(line)) {}

  awaitable<bool> write(std::string_view bytes) override { return line_.pipe->give(bytes); }

  awaitable<sandbox::Unpacked> finish() override {
    line_.pipe->close();
    const OperationReply reply = co_await next_answer(*line_.link);
    co_return sandbox::Unpacked{reply.answer.files, Bytes{reply.answer.bytes}};
  }

 private:
  Line line_;
};

std::uint64_t left(std::uint64_t most, std::uint64_t used) { return most > used ? most - used : 0; }

}  // namespace

awaitable<std::unique_ptr<sandbox::ArchiveReader>> GuestFiles::archive(
    std::vector<std::string> paths, bool gzip, Bytes most) {
  Line line{connect_(), nullptr};
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

awaitable<std::unique_ptr<sandbox::ArchiveWriter>> GuestFiles::unpack(std::string path,
                                                                      sandbox::FileLimits limits) {
  const sandbox::Usage used = co_await usage();
  Line line{connect_(), nullptr};
  wire::OperationRequest request;
  request.type = wire::Operation::unpack;
  request.path = std::move(path);
  request.file_bytes = limits.file.count;
  request.files = left(limits.count, used.files);
  request.bytes = left(limits.workspace.count, used.bytes.count);
  co_await begin(line, std::move(request));
  co_return std::make_unique<PipeWriter>(std::move(line));
}

}  // namespace tb::box
