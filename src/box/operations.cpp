// SPDX-License-Identifier: Apache-2.0
#include "box/operations.h"

#include <cstring>

#include "box/files.h"

namespace tb::box {
namespace {

namespace wire = guest::files;
using sandbox::FileError;
using sandbox::FileInfo;
using sandbox::FileProblem;
using wire::Operation;
using wire::OperationRequest;

constexpr auto kSilence = 20s;  // a helper gives a sign of life each second

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

awaitable<OperationReply> ask_operation(HelperLink& link, OperationRequest request) {
  link.say(request.encode());
  co_return co_await next_answer(link);
}

awaitable<OperationReply> next_answer(HelperLink& link) {
  for (;;) {
    HelperLink::Heard heard = co_await link.hear(kSilence);
    OperationReply reply;
    if (!wire::OperationAnswer::decode(heard.packet, reply.answer)) throw HelperLink::ended();
    const wire::OperationAnswer& answer = reply.answer;
    if (answer.type == wire::Told::working) continue;
    if (answer.type == wire::Told::refused) refuse_file(answer.reason, answer.number, answer.text);
    reply.file = std::move(heard.file);
    co_return reply;
  }
}

// ---- what GuestFiles does with that ----

awaitable<FileInfo> GuestFiles::stat(std::string path) {
  const std::unique_ptr<HelperLink> link = connect_();
  OperationRequest request = about(Operation::stat, std::move(path));
  const OperationReply reply = co_await ask_operation(*link, std::move(request));
  co_return only_item(reply);
}

awaitable<sandbox::Listing> GuestFiles::walk(sandbox::WalkSpec spec) {
  const std::unique_ptr<HelperLink> link = connect_();
  OperationRequest request = about(Operation::walk, std::move(spec.path));
  if (spec.recursive || !spec.pattern.empty()) request.flags |= OperationRequest::recursive;
  request.glob = std::move(spec.pattern);
  request.other = std::move(spec.after);
  request.most = spec.most;
  sandbox::Listing listing;
  OperationReply reply = co_await ask_operation(*link, std::move(request));
  while (reply.answer.type == wire::Told::items) {
    for (const wire::Item& item : reply.answer.items) listing.files.push_back(to_info(item));
    if (listing.files.size() > spec.most) throw Error{Code::internal, "a listing without end"};
    reply = co_await next_answer(*link);
  }
  listing.complete = reply.answer.complete != 0;
  co_return listing;
}

awaitable<sandbox::FoundLines> GuestFiles::search(sandbox::SearchSpec spec) {
  if (spec.text.size() > wire::kMaxSearched) {
    throw FileError{FileProblem::bad_pattern, "The pattern is wrong: longer than 4096 bytes"};
  }
  const std::unique_ptr<HelperLink> link = connect_();
  OperationRequest request = about(Operation::search, std::move(spec.path));
  if (spec.regex) request.flags |= OperationRequest::regex;
  if (spec.ignore_case) request.flags |= OperationRequest::ignore_case;
  request.glob = std::move(spec.glob);
  request.text = std::move(spec.text);
  request.most = spec.most;
  sandbox::FoundLines found;
  OperationReply reply = co_await ask_operation(*link, std::move(request));
  while (reply.answer.type == wire::Told::items) {
    for (wire::Item& item : reply.answer.items) {
      found.lines.push_back({std::move(item.entry.name), item.line, std::move(item.text)});
    }
    if (found.lines.size() > spec.most) throw Error{Code::internal, "a search without end"};
    reply = co_await next_answer(*link);
  }
  found.files = reply.answer.files;
  found.complete = reply.answer.complete != 0;
  co_return found;
}

awaitable<sandbox::Named> GuestFiles::make_directory(std::string path,
                                                     std::optional<unsigned> mode) {
  const std::unique_ptr<HelperLink> link = connect_();
  OperationRequest request = about(Operation::mkdir, std::move(path));
  request.flags = OperationRequest::recursive | (mode ? OperationRequest::set_mode : 0u);
  request.mode = mode.value_or(0);
  const OperationReply reply = co_await ask_operation(*link, std::move(request));
  co_return sandbox::Named{only_item(reply), reply.answer.complete != 0};
}

awaitable<FileInfo> GuestFiles::move(std::string from, std::string to, bool replaces) {
  const std::unique_ptr<HelperLink> link = connect_();
  OperationRequest request = about(Operation::move, std::move(from));
  request.other = std::move(to);
  if (!replaces) request.flags |= OperationRequest::exclusive;
  const OperationReply reply = co_await ask_operation(*link, std::move(request));
  co_return only_item(reply);
}

awaitable<void> GuestFiles::remove(std::string path, bool recursive) {
  const std::unique_ptr<HelperLink> link = connect_();
  OperationRequest request = about(Operation::remove, std::move(path));
  if (recursive) request.flags |= OperationRequest::recursive;
  co_await ask_operation(*link, std::move(request));
}

}  // namespace tb::box
