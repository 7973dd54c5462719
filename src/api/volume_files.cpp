// SPDX-License-Identifier: Apache-2.0
// Files of a volume, moved in and out by a sandbox that has nothing else: the same rules, streams
// and refusals as for files of a session.
#include <boost/json.hpp>

#include "api/errors.h"
#include "api/fields.h"
#include "api/file_calls.h"
#include "api/files.h"
#include "api/volume_fields.h"
#include "base/utf8.h"
#include "sandbox/writing.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr std::size_t kPiece = 256 << 10;
constexpr std::size_t kMostListed = 10'000;
constexpr std::uint64_t kMostFiles = 10'000'000;  // its bytes bound them

FileLimits limits_of(const storage::Volume& volume) {
  return {volume.limit, kMostFiles, volume.limit};
}

awaitable<storage::Volumes::Opened> open(FileCall& call, storage::Volume volume, bool read_only) {
  return call.service.volumes->open(std::move(volume), read_only);
}

awaitable<http::Response> list(FileCall& call) {
  call.path = file_path(call.text("path"));
  sandbox::WalkSpec spec;
  spec.path = call.path;
  spec.recursive = call.flag("recursive");
  spec.most = kMostListed;
  storage::Volume volume = co_await named_volume(call.service, call.call);
  const auto opened = co_await open(call, std::move(volume), true);
  const sandbox::Listing listing = co_await opened.files().walk(std::move(spec));
  json::array files;
  for (const sandbox::FileInfo& info : listing.files) files.push_back(render_file(info, info.name));
  co_return answer_json(200, {{"files", std::move(files)}, {"truncated", !listing.complete}});
}

awaitable<http::Response> read(FileCall& call) {
  call.path = file_path_below(call.text("path"));
  storage::Volume volume = co_await named_volume(call.service, call.call);
  const auto opened = co_await open(call, std::move(volume), true);
  const auto file = co_await opened.files().open(call.path);
  const std::string etag = '"' + file->info().version + '"';
  const http::Slice slice = slice_of(call.request(), file->info().size, etag);
  http::Response head;
  head.status = slice.status;
  head.content_type = "application/octet-stream";
  head.headers.push_back({"Accept-Ranges", "bytes"});
  head.headers.push_back({"ETag", etag});
  head.headers.push_back({"X-Content-Type-Options", "nosniff"});
  if (!slice.content_range.empty()) head.headers.push_back({"Content-Range", slice.content_range});
  co_await call.call.exchange.begin(std::move(head), slice.length);
  if (call.request().method != "HEAD") co_await send_slice(call.call.exchange, *file, slice);
  co_await call.call.exchange.end();
  http::Response sent;
  sent.status = slice.status;
  co_return sent;
}

awaitable<http::Response> write(FileCall& call) {
  call.path = file_path_below(call.text("path"));
  storage::Volume volume = co_await named_volume(call.service, call.call);
  sandbox::LimitedFile file{limits_of(volume)};
  const auto opened = co_await open(call, std::move(volume), false);
  http::Exchange& exchange = call.call.exchange;
  const Bytes expected{exchange.body_length().value_or(0)};
  co_await file.begin(opened.files(), expected);
  std::string buffer(kPiece, '\0');
  while (const std::size_t got = co_await exchange.read_some(buffer)) {
    const std::string_view piece{buffer.data(), got};
    co_await file.write(piece);
  }
  sandbox::Naming naming;
  naming.mode = call.mode();
  const sandbox::Named named = co_await file.commit(call.path, std::move(naming));
  co_return answer_json(named.created ? 201 : 200, render_file(named.info, call.path));
}

awaitable<http::Response> remove(FileCall& call) {
  call.path = file_path_below(call.text("path"));
  const bool recursive = call.flag("recursive");
  storage::Volume volume = co_await named_volume(call.service, call.call);
  const auto opened = co_await open(call, std::move(volume), false);
  co_await opened.files().remove(call.path, recursive);
  co_return answer_json(200, {{"status", "deleted"}, {"path", to_utf8(call.path)}});
}

awaitable<http::Response> download(FileCall& call) {
  call.path = file_path(call.text("path"));
  const std::string format = call.text("format");
  if (!format.empty() && format != "tar" && format != "tgz") {
    throw http::HttpError{400, "\"format\" must be tar or tgz"};
  }
  const bool gzip = format == "tgz";
  storage::Volume volume = co_await named_volume(call.service, call.call);
  const Bytes most = volume.limit * 2;  // with the heads of many small files
  const auto opened = co_await open(call, std::move(volume), true);
  std::vector<std::string> paths(1, call.path);
  const auto archive = co_await opened.files().archive(std::move(paths), gzip, most);
  http::Response head;
  head.content_type = gzip ? "application/gzip" : "application/x-tar";
  head.headers.push_back({"X-Content-Type-Options", "nosniff"});
  http::Exchange& exchange = call.call.exchange;
  co_await exchange.begin(std::move(head), std::nullopt);
  std::string buffer(kPiece, '\0');
  while (call.request().method != "HEAD") {
    const std::size_t got = co_await archive->read(buffer);
    if (got == 0) break;
    const std::string_view piece{buffer.data(), got};
    co_await exchange.write(piece);
  }
  co_await exchange.end();
  co_return http::Response{};
}

awaitable<http::Response> upload(FileCall& call) {
  call.path = file_path(call.text("path"));
  storage::Volume volume = co_await named_volume(call.service, call.call);
  const FileLimits limits = limits_of(volume);
  const auto opened = co_await open(call, std::move(volume), false);
  const auto archive = co_await opened.files().unpack(call.path, limits);
  std::string buffer(kPiece, '\0');
  while (const std::size_t got = co_await call.call.exchange.read_some(buffer)) {
    const std::string_view piece{buffer.data(), got};
    const bool wanted = co_await archive->write(piece);
    if (!wanted) break;
  }
  const sandbox::Unpacked unpacked = co_await archive->finish();
  co_return answer_json(
      200,
      {{"path", to_utf8(call.path)}, {"files", unpacked.files}, {"bytes", unpacked.bytes.count}});
}

}  // namespace

void add_volume_file_routes(Router& router, Service& service) {
  add_file_route(router, service, "GET", "/api/volumes/{}/files", list);
  add_file_route(router, service, "DELETE", "/api/volumes/{}/files", remove);
  add_file_route(router, service, "GET", "/api/volumes/{}/content", read);
  add_file_route(router, service, "PUT", "/api/volumes/{}/content", write);
  add_file_route(router, service, "GET", "/api/volumes/{}/archive", download);
  add_file_route(router, service, "PUT", "/api/volumes/{}/archive", upload);
}

}  // namespace tb::api
