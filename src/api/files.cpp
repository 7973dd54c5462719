// SPDX-License-Identifier: Apache-2.0
// Downloads and listings of the seed dialect; uploads are in upload.cpp.
#include "api/files.h"

#include <sys/stat.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>

#include "api/errors.h"
#include "api/fields.h"
#include "api/paths.h"
#include "base/iso8601.h"
#include "base/utf8.h"
#include "http/content_disposition.h"
#include "http/range.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr std::size_t kChunk = 256 << 10;
constexpr std::uint64_t kWorthSending = 1 << 20;  // less is read sooner than sent by another thread
constexpr std::size_t kMostListed = 100000;       // looked at
constexpr std::size_t kPage = 10000;              // answered with at once: others wait meanwhile

struct Wanted {
  std::string session;
  std::string filename;
};

awaitable<Wanted> read_wanted(Call& call) {
  const http::Request& request = call.exchange.request();
  Wanted wanted;
  if (request.method == "POST") {
    const json::object body = co_await read_object(call.exchange);
    wanted.session = find_text(body, "session_id").value_or("");
    wanted.filename = find_text(body, "filename").value_or("");
  } else {
    if (const std::string* id = request.find_query("session_id")) wanted.session = *id;
    if (const std::string* name = request.find_query("filename")) wanted.filename = *name;
  }
  if (wanted.session.empty() || wanted.filename.empty()) {
    throw http::HttpError{400, "session_id and filename required"};
  }
  co_return wanted;
}

http::Response head_of(const std::string& filename, const std::string& etag,
                       const http::Slice& slice) {
  http::Response head;
  head.status = slice.status;
  head.content_type = "application/octet-stream";
  head.headers.push_back({"Content-Disposition", http::attachment(filename)});
  head.headers.push_back({"Accept-Ranges", "bytes"});
  head.headers.push_back({"ETag", etag});
  head.headers.push_back({"X-Content-Type-Options", "nosniff"});
  if (!slice.content_range.empty()) {
    head.headers.push_back({"Content-Range", slice.content_range});
  }
  return head;
}

// To clients only regular files below the workspace exist; `reason` says what else has the name.
[[noreturn]] void refuse_download(const sandbox::FileError& error, const std::string& filename) {
  switch (error.problem()) {
    case sandbox::FileProblem::not_regular:
    case sandbox::FileProblem::outside:
    case sandbox::FileProblem::blocked:
      throw Refusal{
          404,
          "File not found in workspace",
          {{"filename", filename}, {"workspace_dir", kWorkspace}, {"reason", error.what()}}};
    default: refuse_file(error, filename);
  }
}

awaitable<std::unique_ptr<sandbox::OpenFile>> open_file(sandbox::Sandbox& box,
                                                        const std::string& path,
                                                        const std::string& filename) {
  std::optional<sandbox::FileError> failure;
  try {
    co_return co_await box.files().open(path);
  } catch (const sandbox::FileError& error) {
    failure = error;
  }
  refuse_download(*failure, filename);
}

awaitable<http::Response> download(Service& service, Call& call) {
  const auto began = std::chrono::steady_clock::now();
  const Wanted wanted = co_await read_wanted(call);
  const std::string path = workspace_path(wanted.filename);
  const auto session = session_of(service, call, wanted.session);
  const session::Use use = co_await service.sessions.use(session);
  const auto file = co_await open_file(use.sandbox(), path, wanted.filename);
  const Bytes size = file->info().size;
  if (size > workspace_limit(service, *session)) {
    throw Refusal{413, "File is larger than a workspace may be", {{"filename", wanted.filename}}};
  }
  const std::string etag = '"' + file->info().version + '"';
  const http::Slice slice = slice_of(call.exchange.request(), size, etag);
  http::Response head = head_of(wanted.filename, etag, slice);
  co_await call.exchange.begin(std::move(head), slice.length);
  const bool sends = call.exchange.request().method != "HEAD";
  if (sends) co_await send_slice(call.exchange, *file, slice);
  co_await call.exchange.end();
  if (sends) {
    service.sessions.events().file_downloaded(session->who(call.request_id), Bytes{slice.length},
                                              since(began));
  }
  http::Response sent;
  sent.status = slice.status;
  co_return sent;
}

// As `ls -l` shows it.
std::string permissions(const sandbox::FileInfo& info) {
  const char types[] = {'-', 'd', 'l', S_ISFIFO(info.mode) ? 'p' : S_ISSOCK(info.mode) ? 's' : '?'};
  std::string text{types[static_cast<int>(info.type)]};
  constexpr char kBits[] = "rwxrwxrwx";
  for (int i = 0; i < 9; ++i) text += info.mode & (0400u >> i) ? kBits[i] : '-';
  if (info.mode & S_ISUID) text[3] = info.mode & S_IXUSR ? 's' : 'S';
  if (info.mode & S_ISGID) text[6] = info.mode & S_IXGRP ? 's' : 'S';
  if (info.mode & S_ISVTX) text[9] = info.mode & S_IXOTH ? 't' : 'T';
  return text;
}

const char* type_name(sandbox::FileType type) {
  constexpr const char* kNames[] = {"file", "directory", "symlink", "other"};
  return kNames[static_cast<int>(type)];
}

std::size_t query_number(const http::Request& request, const char* name, std::size_t otherwise,
                         std::size_t most) {
  const std::string* text = request.find_query(name);
  if (!text) return otherwise;
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size() || value > most) {
    throw http::HttpError{
        400, std::string{"\""} + name + "\" must be a whole number up to " + std::to_string(most)};
  }
  return value;
}

// The rows of a listing, written as text at once: values for a thousand of them take longer than
// reading the directory.
class Rows {
 public:
  explicit Rows(std::size_t count) { text_.reserve(count * 160); }
  void add(const sandbox::FileInfo& info) {
    const auto second = std::chrono::floor<std::chrono::seconds>(info.modified);
    if (modified_.empty() || second != second_) modified_ = iso8601(info.modified);
    second_ = second;
    if (!text_.empty()) text_ += ',';
    text_ += "{\"name\":" + json::serialize(json::string_view{to_utf8(info.name)});
    text_ += ",\"size_bytes\":" + std::to_string(info.size.count);
    text_ += ",\"modified\":\"" + modified_;
    text_ += "\",\"permissions\":\"" + permissions(info);
    text_ += "\",\"type\":\"" + std::string{type_name(info.type)} + "\"}";
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::string modified_;  // of the row before: neighbours often have the same
  std::chrono::sys_seconds second_{};
};

awaitable<sandbox::Listing> list_directory(sandbox::Sandbox& box, const std::string& path) {
  std::optional<sandbox::FileError> failure;
  try {
    co_return co_await box.files().list(path, kMostListed);
  } catch (const sandbox::FileError& error) {
    failure = error;
  }
  refuse_file(*failure, path);
}

awaitable<http::Response> list_files(Service& service, Call& call) {
  const http::Request& request = call.exchange.request();
  const std::string* id = request.find_query("session_id");
  if (!id || id->empty()) throw http::HttpError{400, "session_id required"};
  const std::string* asked = request.find_query("path");
  const std::string path = asked && !asked->empty() ? workspace_path(*asked) : std::string{};
  const std::size_t limit = query_number(request, "limit", kPage, kPage);
  const std::size_t offset = query_number(request, "offset", 0, kMostListed);
  const auto session = session_of(service, call, *id);
  const session::Use use = co_await service.sessions.look(session);
  sandbox::Listing listing = co_await list_directory(use.sandbox(), path);
  std::sort(listing.files.begin(), listing.files.end(), [](const auto& a, const auto& b) {
    return a.modified != b.modified ? a.modified > b.modified : a.name < b.name;
  });
  const std::size_t end = std::min(listing.files.size(), offset + limit);
  Rows rows{end > offset ? end - offset : 0};
  std::uint64_t total = 0;
  for (std::size_t i = offset; i < end; ++i) {
    rows.add(listing.files[i]);
    total += listing.files[i].size.count;
  }
  json::object answer{{"session_id", session->id},
                      {"workspace_dir", kWorkspace},
                      {"total_files", end > offset ? end - offset : 0},
                      {"total_size_bytes", total},
                      {"truncated", end < listing.files.size() || !listing.complete}};
  std::string text = json::serialize(answer);
  text.back() = ',';
  text.append("\"files\":[").append(rows.text()).append("]}");
  service.sessions.events().files_listed();
  co_return http::json_response(200, std::move(text));
}

}  // namespace

awaitable<void> send_slice(http::Exchange& exchange, sandbox::OpenFile& file, http::Slice slice) {
  std::uint64_t at = slice.first;
  const std::uint64_t end = slice.first + slice.length;
  if (slice.length >= kWorthSending) {
    const http::Send send = [&](int socket, std::uint64_t offset, std::uint64_t most) {
      return file.send(socket, slice.first + offset, most);
    };
    at += co_await exchange.write_by(send, slice.length);
  }
  std::string buffer(std::min<std::uint64_t>(kChunk, end - at), '\0');
  while (at < end) {
    const std::span<char> room{buffer.data(), std::min<std::uint64_t>(buffer.size(), end - at)};
    const std::size_t got = co_await file.read(at, room);
    if (got == 0) throw http::Disconnected{};  // it was cut: the client must not take it for whole
    at += got;
    const std::string_view piece{buffer.data(), got};
    co_await exchange.write(piece);
  }
}

http::Slice slice_of(const http::Request& request, Bytes size, const std::string& etag) {
  if (request.method != "HEAD") return http::select_range(request.headers, size.count, {etag, {}});
  return {.status = 200, .first = 0, .length = size.count, .content_range = {}};
}

std::shared_ptr<session::Session> session_of(const Service& service, const Call& call,
                                             const std::string& id) {
  auto session = find_own_session(service, call, id);
  if (!session) {
    throw Refusal{404, "Invalid or expired session", {{"session_id", to_utf8(id.substr(0, 200))}}};
  }
  return session;
}

std::chrono::milliseconds command_timeout(const Service& service, const session::Session* session) {
  const Milliseconds usual = service.command_timeout;
  return session ? session->surroundings.command_timeout.value_or(usual) : usual;
}

FileLimits file_limits(const Service& service, const session::Session& session) {
  FileLimits limits = service.file_limits;
  limits.workspace = workspace_limit(service, session);
  return limits;
}

Bytes workspace_limit(const Service& service, const session::Session& session) {
  return session.surroundings.disk.value_or(service.file_limits.workspace);
}

double mebibytes(Bytes bytes) {
  return std::round(static_cast<double>(bytes.count) / (1 << 20) * 100) / 100;
}

void refuse_file(const sandbox::FileError& error, const std::string& filename) {
  json::object more{{"filename", filename}, {"workspace_dir", kWorkspace}};
  switch (error.problem()) {
    case sandbox::FileProblem::not_found:
      throw Refusal{404, "File not found in workspace", std::move(more)};
    case sandbox::FileProblem::denied: throw Refusal{403, error.what(), std::move(more)};
    case sandbox::FileProblem::full: throw Refusal{507, error.what(), std::move(more)};
    default: throw Refusal{400, error.what(), std::move(more)};
  }
}

void add_file_routes(Router& router, Service& service) {
  for (const char* method : {"GET", "POST"}) {
    router.add(method, "/download_file",
               [&service](Call& call) { return download(service, call); });
  }
  router.add("GET", "/list_files", [&service](Call& call) { return list_files(service, call); });
}

}  // namespace tb::api
