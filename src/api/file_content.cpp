// SPDX-License-Identifier: Apache-2.0
// Contents of files: read by bytes or by lines, written, edited.
#include <boost/json.hpp>

#include "api/errors.h"
#include "api/fields.h"
#include "api/file_calls.h"
#include "api/files.h"
#include "base/utf8.h"
#include "sandbox/lines.h"
#include "sandbox/writing.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr std::size_t kPiece = 256 << 10;
constexpr std::uint64_t kMostLines = 1000000000;

http::Response content_head(int status, const std::string& etag) {
  http::Response head;
  head.status = status;
  head.content_type = "application/octet-stream";
  head.headers.push_back({"Accept-Ranges", "bytes"});
  head.headers.push_back({"ETag", etag});
  head.headers.push_back({"X-Content-Type-Options", "nosniff"});
  return head;
}

awaitable<http::Response> send_lines(FileCall& call, sandbox::OpenFile& file,
                                     const std::string& etag) {
  sandbox::LineRange range;
  range.first = call.number("line", 1, kMostLines);
  range.count = call.number("lines", kMostLines, kMostLines);
  sandbox::Lines lines = co_await sandbox::read_lines(file, range);
  http::Response response = content_head(200, etag);
  response.headers.push_back({"X-First-Line", std::to_string(lines.first)});
  response.headers.push_back({"X-Lines", std::to_string(lines.count)});
  response.headers.push_back({"X-More-Lines", lines.more ? "true" : "false"});
  if (lines.total) response.headers.push_back({"X-Total-Lines", std::to_string(*lines.total)});
  if (lines.cut) response.headers.push_back({"X-Line-Cut", "true"});
  response.body = std::move(lines.text);
  co_return response;
}

awaitable<http::Response> send_bytes(FileCall& call, sandbox::OpenFile& file,
                                     const std::string& etag) {
  const http::Slice slice = slice_of(call.request(), file.info().size, etag);
  http::Response head = content_head(slice.status, etag);
  if (!slice.content_range.empty()) head.headers.push_back({"Content-Range", slice.content_range});
  co_await call.call.exchange.begin(std::move(head), slice.length);
  if (call.request().method != "HEAD") co_await send_slice(call.call.exchange, file, slice);
  co_await call.call.exchange.end();
  http::Response sent;
  sent.status = slice.status;
  co_return sent;
}

awaitable<http::Response> read(FileCall& call) {
  const auto began = std::chrono::steady_clock::now();
  call.path = file_path_below(call.text("path"));
  const auto session = call.session();
  const session::Use use = co_await call.service.sessions.use(session);
  const auto file = co_await use.sandbox().files().open(call.path);
  const Bytes size = file->info().size;
  const FileLimits limits = file_limits(call.service, *session);
  if (size > limits.workspace) {
    throw sandbox::LimitError{sandbox::FileProblem::too_large,
                              "File is larger than a workspace may be",
                              limits,
                              {},
                              size};
  }
  const std::string etag = '"' + file->info().version + '"';
  const bool by_lines = call.request().find_query("line") || call.request().find_query("lines");
  http::Response response;
  if (by_lines) {
    response = co_await send_lines(call, *file, etag);
  } else {
    response = co_await send_bytes(call, *file, etag);
  }
  call.service.sessions.events().file_downloaded(session->who(call.call.request_id), size,
                                                 since(began));
  co_return response;
}

awaitable<void> receive(http::Exchange& exchange, sandbox::LimitedFile& file) {
  std::string buffer(kPiece, '\0');
  while (const std::size_t got = co_await exchange.read_some(buffer)) {
    const std::string_view piece{buffer.data(), got};
    co_await file.write(piece);
  }
}

awaitable<http::Response> write(FileCall& call) {
  const auto began = std::chrono::steady_clock::now();
  call.path = file_path_below(call.text("path"));
  sandbox::Naming naming;
  naming.exclusive = call.flag("exclusive");
  naming.append = call.flag("append");
  naming.mode = call.mode();
  if (naming.exclusive && naming.append) {
    throw http::HttpError{400, "give either \"exclusive\" or \"append\""};
  }
  const auto session = call.session();
  const session::Use use = co_await call.service.sessions.use(session);
  sandbox::LimitedFile file{file_limits(call.service, *session)};
  const Bytes expected{call.call.exchange.body_length().value_or(0)};
  co_await file.begin(use.sandbox().files(), expected);
  co_await receive(call.call.exchange, file);
  const sandbox::Named named = co_await file.commit(call.path, std::move(naming));
  call.service.sessions.events().file_uploaded(session->who(call.call.request_id), named.info.size,
                                               since(began));
  co_return answer_json(named.created ? 201 : 200, render_file(named.info, call.path));
}

awaitable<http::Response> edit(FileCall& call) {
  const json::object body = co_await read_object(call.call.exchange);
  call.path = file_path_below(required_text(body, "path"));
  sandbox::Edit edit;
  edit.from = required_text(body, "old");
  edit.to = required_text(body, "new");
  edit.all = find_flag(body, "replace_all").value_or(false);
  const auto session = call.session();
  const session::Use use = co_await call.service.sessions.use(session);
  const FileLimits limits = file_limits(call.service, *session);
  const sandbox::Edited edited =
      co_await sandbox::edit_file(use.sandbox().files(), call.path, std::move(edit), limits);
  json::object answer = render_file(edited.info, call.path);
  answer["replacements"] = edited.replaced;
  answer["lines"] = json::array(edited.lines.begin(), edited.lines.end());
  co_return answer_json(200, answer);
}

}  // namespace

void add_content_routes(Router& router, Service& service) {
  add_file_call(router, service, "GET", "/content", read);
  add_file_call(router, service, "PUT", "/content", write);
  add_file_call(router, service, "POST", "/edit", edit);
}

}  // namespace tb::api
