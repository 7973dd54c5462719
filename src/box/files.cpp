// SPDX-License-Identifier: Apache-2.0
#include "box/files.h"

#include <cerrno>

#include "box/operations.h"
#include "guest/files_wire.h"

namespace tb::box {
namespace {

namespace wire = guest::files;
using sandbox::FileError;
using sandbox::FileInfo;
using sandbox::FileProblem;

constexpr auto kAnswer = 20s;  // for one step of the helper, in a sandbox with little CPU
constexpr std::uint64_t kMostCounted = 1000000;

struct Reply {
  wire::Answer answer;
  std::unique_ptr<HelperFile> file;
};

// The helper runs our code, but what it passes is looked at before it is believed.
HelperFile::State check_regular(const std::unique_ptr<HelperFile>& file) {
  // A descriptor that we have no room for gets lost on the way.
  if (!file) throw Error{Code::exhausted, "The server has too many files open"};
  HelperFile::State state = file->state();
  if (!state.regular) throw FileError{FileProblem::not_regular, "Not a regular file"};
  return state;
}

awaitable<Reply> next(HelperLink& link) {
  HelperLink::Heard heard = co_await link.hear(kAnswer);
  Reply reply;
  if (!wire::Answer::decode(heard.packet, reply.answer)) throw HelperLink::ended();
  if (reply.answer.type == wire::Message::refused) {
    refuse_file(reply.answer.reason, reply.answer.number, {});
  }
  reply.file = std::move(heard.file);
  co_return reply;
}

awaitable<Reply> ask(HelperLink& link, wire::Request request) {
  link.say(request.encode());
  co_return co_await next(link);
}

std::string usage_request() {
  wire::Request request;
  request.type = wire::Message::usage;
  request.most = kMostCounted;
  return request.encode();
}

awaitable<sandbox::Usage> next_usage(HelperLink& link) {
  const Reply reply = co_await next(link);
  co_return sandbox::Usage{reply.answer.files, Bytes{reply.answer.bytes}};
}

void check_written(int failed) {
  if (failed == ENOSPC || failed == EDQUOT || failed == EFBIG) {
    throw FileError{FileProblem::full, "The workspace is full"};
  }
  if (failed != 0) throw SystemError{failed, "write a file of a sandbox"};
}

class Reading : public sandbox::OpenFile {
 public:
  Reading(std::unique_ptr<HelperLink> link, FileInfo info, std::unique_ptr<HelperFile> file)
      : link_(std::move(link)), info_(std::move(info)), file_(std::move(file)) {}

  const FileInfo& info() const override { return info_; }
  awaitable<std::size_t> read(std::uint64_t offset, std::span<char> out) override {
    return file_->read(offset, out);
  }
  awaitable<std::optional<std::size_t>> send(int socket, std::uint64_t offset,
                                             std::uint64_t most) override {
    return file_->send(socket, offset, most);
  }

 private:
  std::unique_ptr<HelperLink> link_;
  FileInfo info_;
  std::unique_ptr<HelperFile> file_;
};

class Writing : public sandbox::NewFile {
 public:
  Writing(std::unique_ptr<HelperLink> link, sandbox::Usage used, std::unique_ptr<HelperFile> file)
      : link_(std::move(link)), used_(used), file_(std::move(file)) {}

  const sandbox::Usage& used() const override { return used_; }

  awaitable<void> write(std::string_view bytes) override {
    const int failed = co_await file_->write(bytes);
    check_written(failed);
  }

  awaitable<FileInfo> commit(std::string path) override {
    const int failed = co_await file_->flush();
    check_written(failed);
    wire::Request request;
    request.type = wire::Message::commit;
    request.path = std::move(path);
    const Reply reply = co_await ask(*link_, std::move(request));
    if (reply.answer.entries.empty()) throw Error{Code::internal, "a commit without a file"};
    co_return to_info(reply.answer.entries.front());
  }

  awaitable<sandbox::Named> commit_as(std::string path, sandbox::Naming naming) override {
    const int failed = co_await file_->flush();
    check_written(failed);
    wire::OperationRequest request;
    request.type = wire::Operation::commit;
    request.path = std::move(path);
    request.other = std::move(naming.replaces);
    request.flags = (naming.exclusive ? wire::OperationRequest::exclusive : 0u) |
                    (naming.append ? wire::OperationRequest::append : 0u) |
                    (naming.mode ? wire::OperationRequest::set_mode : 0u);
    request.mode = naming.mode.value_or(0);
    request.file_bytes = naming.most.count;
    const OperationReply reply = co_await ask_operation(*link_, std::move(request));
    co_return sandbox::Named{only_item(reply), reply.answer.complete != 0};
  }

  awaitable<void> drop() override {
    co_await file_->flush();
    file_.reset();
    link_.reset();
  }

 private:
  std::unique_ptr<HelperLink> link_;
  sandbox::Usage used_;
  std::unique_ptr<HelperFile> file_;
};

}  // namespace

Error HelperLink::ended() {
  return Error{Code::unavailable,
               "The sandbox can't work on files now: it has ended, or it is "
               "at its limit of processes or memory"};
}

Error HelperLink::silent() {
  return Error{Code::unavailable, "The sandbox does not answer about files"};
}

Error HelperLink::stalled() {
  return Error{Code::unavailable, "The sandbox does not go on with the archive"};
}

awaitable<std::unique_ptr<sandbox::OpenFile>> GuestFiles::open(std::string path) {
  std::unique_ptr<HelperLink> link = connect_();
  wire::Request request;
  request.type = wire::Message::open;
  request.path = std::move(path);
  Reply reply = co_await ask(*link, std::move(request));
  HelperFile::State found = check_regular(reply.file);
  FileInfo info = reply.answer.entries.empty() ? FileInfo{} : to_info(reply.answer.entries.front());
  info.size = Bytes{found.size};
  info.version = std::move(found.version);
  link->opened();
  co_return std::make_unique<Reading>(std::move(link), std::move(info), std::move(reply.file));
}

awaitable<std::unique_ptr<sandbox::NewFile>> GuestFiles::create() {
  std::unique_ptr<HelperLink> link = connect_();
  wire::Request create;
  create.type = wire::Message::create;
  // By the same helper: each is a process of the sandbox, and those have a limit.
  link->say(usage_request());
  link->say(create.encode());
  const sandbox::Usage used = co_await next_usage(*link);
  Reply reply = co_await next(*link);
  check_regular(reply.file);
  co_return std::make_unique<Writing>(std::move(link), used, std::move(reply.file));
}

awaitable<sandbox::Listing> GuestFiles::list(std::string path, std::size_t most) {
  const std::unique_ptr<HelperLink> link = connect_();
  wire::Request request;
  request.type = wire::Message::list;
  request.path = std::move(path);
  request.most = most;
  sandbox::Listing listing;
  Reply reply = co_await ask(*link, std::move(request));
  while (reply.answer.type == wire::Message::entries) {
    for (const wire::Entry& entry : reply.answer.entries) listing.files.push_back(to_info(entry));
    if (listing.files.size() > most) throw Error{Code::internal, "a listing without end"};
    reply = co_await next(*link);
  }
  listing.complete = reply.answer.complete != 0;
  co_return listing;
}

awaitable<sandbox::Usage> GuestFiles::usage() {
  const std::unique_ptr<HelperLink> link = connect_();
  link->say(usage_request());
  co_return co_await next_usage(*link);
}

}  // namespace tb::box
