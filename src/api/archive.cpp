// SPDX-License-Identifier: Apache-2.0
// Whole trees as tar, plain or gzip: streamed out of the sandbox and into it.
#include <boost/json.hpp>

#include "api/errors.h"
#include "api/file_calls.h"
#include "api/files.h"
#include "base/utf8.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr std::size_t kPiece = 256 << 10;

bool wants_gzip(const FileCall& call) {
  const std::string format = call.text("format");
  if (format.empty()) return false;
  if (format != "tar" && format != "tgz") {
    throw http::HttpError{400, "\"format\" must be tar or tgz"};
  }
  return format == "tgz";
}

std::vector<std::string> paths_of(FileCall& call) {
  std::vector<std::string> paths;
  for (const http::Parameter& parameter : call.request().query) {
    if (parameter.name == "path") paths.push_back(file_path(parameter.value));
  }
  if (paths.empty()) paths.emplace_back();
  call.path = paths.front();
  return paths;
}

awaitable<http::Response> download(FileCall& call) {
  std::vector<std::string> paths = paths_of(call);
  const bool gzip = wants_gzip(call);
  const auto session = call.session();
  const session::Use use = co_await call.service.sessions.use(session);
  const Bytes most = workspace_limit(call.service, *session);
  const auto archive = co_await use.sandbox().files().archive(std::move(paths), gzip, most);
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

awaitable<void> pass_on(http::Exchange& exchange, sandbox::ArchiveWriter& archive) {
  std::string buffer(kPiece, '\0');
  for (;;) {
    const std::size_t got = co_await exchange.read_some(buffer);
    if (got == 0) break;
    const std::string_view piece{buffer.data(), got};
    const bool wanted = co_await archive.write(piece);
    if (!wanted) break;
  }
}

awaitable<http::Response> upload(FileCall& call) {
  const auto began = std::chrono::steady_clock::now();
  call.path = file_path(call.text("path"));
  const auto session = call.session();
  const session::Use use = co_await call.service.sessions.use(session);
  const FileLimits limits = file_limits(call.service, *session);
  const auto archive = co_await use.sandbox().files().unpack(call.path, limits);
  co_await pass_on(call.call.exchange, *archive);
  const sandbox::Unpacked unpacked = co_await archive->finish();
  call.service.sessions.events().file_uploaded(session->who(call.call.request_id), unpacked.bytes,
                                               since(began));
  co_return answer_json(
      200,
      {{"path", to_utf8(call.path)}, {"files", unpacked.files}, {"bytes", unpacked.bytes.count}});
}

}  // namespace

void add_archive_routes(Router& router, Service& service) {
  add_file_call(router, service, "GET", "/archive", download);
  add_file_call(router, service, "PUT", "/archive", upload);
}

}  // namespace tb::api
