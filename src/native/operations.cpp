// SPDX-License-Identifier: Apache-2.0
#include "native/operations.h"

#include <cstring>

#include "native/files.h"
#include "os/fdpass.h"

namespace tb::native {
namespace {

namespace wire = guest::files;
using sandbox::FileError;
using sandbox::FileInfo;
using sandbox::FileProblem;
using wire::Operation;
using wire::OperationRequest;

constexpr auto kSilence = 20s;  // a helper gives a sign of life each second

Error ended() {
  return Error{Code::unavailable,
               "The sandbox can't work on files now: it has ended, or it is "
               "at its limit of processes or memory"};
}

struct Refused {
  wire::Reason reason;
  FileProblem problem;
  const char* text;
};
constexpr Refused kRefused[] = {
    {wire::Reason::not_found, FileProblem::not_found, "File not found in workspace"},
    {wire::Reason::not_regular, FileProblem::not_regular, "Not a regular file"},
    {wire::Reason::outside, FileProblem::outside, "The path leads out of the workspace"},
    {wire::Reason::link, FileProblem::link, "A symbolic link has this name"},
    {wire::Reason::blocked, FileProblem::blocked, "A part of the path is not a directory"},
    {wire::Reason::denied, FileProblem::denied, "The file's permissions forbid this"},
    {wire::Reason::full, FileProblem::full, "The workspace is full"},
    {wire::Reason::bad_name, FileProblem::bad_name, "Invalid filename"},
    {wire::Reason::exists, FileProblem::exists, "Something has this name already"},
    {wire::Reason::not_empty, FileProblem::not_empty, "The directory is not empty"},
    {wire::Reason::not_directory, FileProblem::blocked, "Not a directory"},
    {wire::Reason::too_large, FileProblem::too_large, "File size exceeds maximum allowed size"},
    {wire::Reason::too_many, FileProblem::too_many, "Maximum file count exceeded"},
    {wire::Reason::bad_pattern, FileProblem::bad_pattern, "The pattern is wrong"},
    {wire::Reason::bad_archive, FileProblem::bad_archive, "The archive can't be unpacked"},
    {wire::Reason::changed, FileProblem::changed,
     "The file was changed meanwhile; read it again, then try again"},
};

awaitable<bool> readable(FileSocket& socket) {
  co_await socket.async_wait(FileSocket::wait_read, asio::as_tuple(asio::use_awaitable));
  co_return true;
}

bool receive(FileSocket& socket, OperationReply& reply) {
  static char buffer[os::kMaxPacket];  // one thread, and nothing of it is kept
  os::Packet packet{buffer, sizeof buffer};
  const int result = os::receive_packet(socket.native_handle(), packet);
  if (result == 0 || (result < 0 && errno != EAGAIN)) throw ended();
  if (result < 0) return false;
  if (packet.fd_count > 0) reply.fd = os::Fd{packet.fds[0]};
  for (std::size_t i = 1; i < packet.fd_count; ++i) ::close(packet.fds[i]);
  if (!wire::OperationAnswer::decode({packet.data, packet.size}, reply.answer)) throw ended();
  return true;
}

OperationRequest about(Operation type, std::string path) {
  OperationRequest request;
  request.type = type;
  request.path = std::move(path);
  return request;
}

}  // namespace

void refuse_file(wire::Reason reason, int number, const std::string& text) {
  for (const Refused& known : kRefused) {
    if (known.reason != reason) continue;
    throw FileError{known.problem, text.empty() ? known.text : known.text + (": " + text)};
  }
  if (number == EAGAIN) {
    throw Error{Code::unavailable, "The file is being changed all the time; try again"};
  }
  throw Error{Code::internal,
              std::string{"file access in the sandbox: "} + ::strerrordesc_np(number)};
}

FileInfo to_info(const wire::Entry& entry) {
  FileInfo info;
  info.name = entry.name;
  info.type = static_cast<sandbox::FileType>(entry.type);
  info.mode = entry.mode;
  info.size = Bytes{entry.size};
  const std::chrono::nanoseconds since{static_cast<std::int64_t>(entry.modified_ns)};
  info.modified = std::chrono::system_clock::time_point{
      std::chrono::duration_cast<std::chrono::system_clock::duration>(since)};
  return info;
}

FileInfo to_info(const wire::Item& item) {
  FileInfo info = to_info(item.entry);
  info.version = item.version;
  info.target = item.target;
  return info;
}

FileInfo only_item(const OperationReply& reply) {
  if (reply.answer.items.empty()) throw Error{Code::internal, "an answer without its file"};
  return to_info(reply.answer.items.front());
}

awaitable<OperationReply> ask_operation(FileSocket& socket, OperationRequest request) {
  if (os::send_packet(socket.native_handle(), request.encode()) != 1) throw ended();
  co_return co_await next_answer(socket);
}

awaitable<OperationReply> next_answer(FileSocket& socket) {
  for (;;) {
    OperationReply reply;
    if (!receive(socket, reply)) {
      const auto something = co_await within(kSilence, readable(socket));
      if (!something) throw Error{Code::unavailable, "The sandbox does not answer about files"};
      continue;
    }
    const wire::OperationAnswer& answer = reply.answer;
    if (answer.type == wire::Told::working) continue;
    if (answer.type == wire::Told::refused) refuse_file(answer.reason, answer.number, answer.text);
    co_return reply;
  }
}

// ---- what NativeFiles does with that ----

awaitable<FileInfo> NativeFiles::stat(std::string path) {
  FileSocket socket{executor_, dial().release()};
  OperationRequest request = about(Operation::stat, std::move(path));
  const OperationReply reply = co_await ask_operation(socket, std::move(request));
  co_return only_item(reply);
}

awaitable<sandbox::Listing> NativeFiles::walk(sandbox::WalkSpec spec) {
  FileSocket socket{executor_, dial().release()};
  OperationRequest request = about(Operation::walk, std::move(spec.path));
  if (spec.recursive || !spec.pattern.empty()) request.flags |= OperationRequest::recursive;
  request.glob = std::move(spec.pattern);
  request.other = std::move(spec.after);
  request.most = spec.most;
  sandbox::Listing listing;
  OperationReply reply = co_await ask_operation(socket, std::move(request));
  while (reply.answer.type == wire::Told::items) {
    for (const wire::Item& item : reply.answer.items) listing.files.push_back(to_info(item));
    if (listing.files.size() > spec.most) throw Error{Code::internal, "a listing without end"};
    reply = co_await next_answer(socket);
  }
  listing.complete = reply.answer.complete != 0;
  co_return listing;
}

awaitable<sandbox::FoundLines> NativeFiles::search(sandbox::SearchSpec spec) {
  if (spec.text.size() > wire::kMaxSearched) {
    throw FileError{FileProblem::bad_pattern, "The pattern is wrong: longer than 4096 bytes"};
  }
  FileSocket socket{executor_, dial().release()};
  OperationRequest request = about(Operation::search, std::move(spec.path));
  if (spec.regex) request.flags |= OperationRequest::regex;
  if (spec.ignore_case) request.flags |= OperationRequest::ignore_case;
  request.glob = std::move(spec.glob);
  request.text = std::move(spec.text);
  request.most = spec.most;
  sandbox::FoundLines found;
  OperationReply reply = co_await ask_operation(socket, std::move(request));
  while (reply.answer.type == wire::Told::items) {
    for (wire::Item& item : reply.answer.items) {
      found.lines.push_back({std::move(item.entry.name), item.line, std::move(item.text)});
    }
    if (found.lines.size() > spec.most) throw Error{Code::internal, "a search without end"};
    reply = co_await next_answer(socket);
  }
  found.files = reply.answer.files;
  found.complete = reply.answer.complete != 0;
  co_return found;
}

awaitable<sandbox::Named> NativeFiles::make_directory(std::string path,
                                                      std::optional<unsigned> mode) {
  FileSocket socket{executor_, dial().release()};
  OperationRequest request = about(Operation::mkdir, std::move(path));
  request.flags = OperationRequest::recursive | (mode ? OperationRequest::set_mode : 0u);
  request.mode = mode.value_or(0);
  const OperationReply reply = co_await ask_operation(socket, std::move(request));
  co_return sandbox::Named{only_item(reply), reply.answer.complete != 0};
}

awaitable<FileInfo> NativeFiles::move(std::string from, std::string to, bool replaces) {
  FileSocket socket{executor_, dial().release()};
  OperationRequest request = about(Operation::move, std::move(from));
  request.other = std::move(to);
  if (!replaces) request.flags |= OperationRequest::exclusive;
  const OperationReply reply = co_await ask_operation(socket, std::move(request));
  co_return only_item(reply);
}

awaitable<void> NativeFiles::remove(std::string path, bool recursive) {
  FileSocket socket{executor_, dial().release()};
  OperationRequest request = about(Operation::remove, std::move(path));
  if (recursive) request.flags |= OperationRequest::recursive;
  co_await ask_operation(socket, std::move(request));
}

}  // namespace tb::native
