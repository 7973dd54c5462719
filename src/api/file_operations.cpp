// SPDX-License-Identifier: Apache-2.0
// The tree of a workspace: what is there, and changes of it. Contents are in file_content.cpp.
#include <boost/json.hpp>

#include "api/errors.h"
#include "api/fields.h"
#include "api/file_calls.h"
#include "base/hex.h"
#include "base/utf8.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr std::size_t kPage = 1000;  // names at once, unless asked for more or fewer
constexpr std::size_t kMostAtOnce = 10000;
constexpr std::size_t kMostLines = 10000;

awaitable<http::Response> stat(FileCall& call) {
  call.path = file_path(call.text("path"));
  const auto session = call.session();
  const session::Use use = co_await call.service.sessions.look(session);
  const sandbox::FileInfo info = co_await use.sandbox().files().stat(call.path);
  co_return answer_json(200, render_file(info, call.path));
}

json::array render_files(const sandbox::Listing& listing) {
  json::array files;
  files.reserve(listing.files.size());
  for (const sandbox::FileInfo& info : listing.files) {
    files.push_back(render_file(info, info.name));
  }
  return files;
}

// A path, and as hexadecimal digits when JSON can't carry it.
std::string to_cursor(const std::string& path) {
  if (is_utf8(path)) return "p" + path;
  return "x" + to_hex(path);
}

std::string from_cursor(const std::string& cursor) {
  if (cursor.empty()) return cursor;
  if (cursor.starts_with('p')) return cursor.substr(1);
  if (cursor.starts_with('x')) {
    if (auto path = from_hex(std::string_view{cursor}.substr(1))) return std::move(*path);
  }
  throw http::HttpError{400, "\"cursor\" must be a next_cursor of an earlier answer"};
}

awaitable<http::Response> list(FileCall& call) {
  call.path = file_path(call.text("path"));
  sandbox::WalkSpec spec;
  spec.path = call.path;
  spec.recursive = call.flag("recursive");
  spec.most = call.number("limit", kPage, kMostAtOnce);
  spec.after = from_cursor(call.text("cursor"));
  const std::size_t most = spec.most;
  const auto session = call.session();
  const session::Use use = co_await call.service.sessions.look(session);
  const sandbox::Listing listing = co_await use.sandbox().files().walk(std::move(spec));
  json::object answer{{"path", to_utf8(call.path)},
                      {"files", render_files(listing)},
                      {"next_cursor", nullptr},
                      {"complete", listing.complete}};
  if (!listing.complete && listing.files.size() == most && most > 0) {
    const std::string& last = listing.files.back().name;
    answer["next_cursor"] = to_cursor(call.path.empty() ? last : last.substr(call.path.size() + 1));
  }
  call.service.sessions.events().files_listed();
  co_return answer_json(200, answer);
}

awaitable<http::Response> glob(FileCall& call) {
  call.path = file_path(call.text("path"));
  sandbox::WalkSpec spec;
  spec.path = call.path;
  spec.recursive = true;
  spec.pattern = call.text("pattern");
  if (spec.pattern.empty()) throw http::HttpError{400, "\"pattern\" is missing"};
  spec.most = call.number("limit", kPage, kMostAtOnce);
  const auto session = call.session();
  const session::Use use = co_await call.service.sessions.use(session);
  const sandbox::Listing listing = co_await use.sandbox().files().walk(std::move(spec));
  json::object answer{{"path", to_utf8(call.path)},
                      {"files", render_files(listing)},
                      {"complete", listing.complete}};
  co_return answer_json(200, answer);
}

awaitable<http::Response> search(FileCall& call) {
  const json::object body = co_await read_object(call.call.exchange);
  call.path = file_path(find_text(body, "path").value_or(""));
  sandbox::SearchSpec spec;
  spec.path = call.path;
  spec.text = required_text(body, "pattern");
  if (spec.text.empty()) throw http::HttpError{400, "\"pattern\" is empty"};
  spec.regex = find_flag(body, "regex").value_or(false);
  spec.ignore_case = find_flag(body, "ignore_case").value_or(false);
  spec.glob = find_text(body, "glob").value_or("");
  const double most = find_number(body, "max_results").value_or(kPage);
  if (!(most >= 1) || most > kMostLines) {
    throw http::HttpError{400, "\"max_results\" must be from 1 to 10000"};
  }
  spec.most = static_cast<std::size_t>(most);
  const auto session = call.session();
  const session::Use use = co_await call.service.sessions.use(session);
  const sandbox::FoundLines found = co_await use.sandbox().files().search(std::move(spec));
  json::array matches;
  matches.reserve(found.lines.size());
  for (const sandbox::FoundLine& line : found.lines) {
    matches.push_back(json::object{
        {"path", to_utf8(line.path)}, {"line", line.line}, {"text", to_utf8(line.text)}});
  }
  json::object answer{{"matches", std::move(matches)},
                      {"files_searched", found.files},
                      {"complete", found.complete}};
  co_return answer_json(200, answer);
}

awaitable<http::Response> make_directory(FileCall& call) {
  const json::object body = co_await read_object(call.call.exchange);
  call.path = file_path_below(required_text(body, "path"));
  std::optional<unsigned> mode;
  if (const auto text = find_text(body, "mode")) mode = read_mode(*text);
  const auto session = call.session();
  const session::Use use = co_await call.service.sessions.use(session);
  const sandbox::Named made = co_await use.sandbox().files().make_directory(call.path, mode);
  co_return answer_json(made.created ? 201 : 200, render_file(made.info, call.path));
}

awaitable<http::Response> move(FileCall& call) {
  const json::object body = co_await read_object(call.call.exchange);
  call.path = file_path_below(required_text(body, "from"));
  const std::string to = file_path_below(required_text(body, "to"));
  const bool replaces = find_flag(body, "overwrite").value_or(true);
  const auto session = call.session();
  const session::Use use = co_await call.service.sessions.use(session);
  const sandbox::FileInfo info = co_await use.sandbox().files().move(call.path, to, replaces);
  co_return answer_json(200, render_file(info, to));
}

awaitable<http::Response> remove(FileCall& call) {
  call.path = file_path_below(call.text("path"));
  const bool recursive = call.flag("recursive");
  const auto session = call.session();
  const session::Use use = co_await call.service.sessions.use(session);
  co_await use.sandbox().files().remove(call.path, recursive);
  co_return answer_json(200, {{"path", to_utf8(call.path)}, {"removed", true}});
}

}  // namespace

void add_file_operation_routes(Router& router, Service& service) {
  add_file_call(router, service, "GET", "", stat);
  add_file_call(router, service, "DELETE", "", remove);
  add_file_call(router, service, "GET", "/list", list);
  add_file_call(router, service, "GET", "/glob", glob);
  add_file_call(router, service, "POST", "/search", search);
  add_file_call(router, service, "POST", "/mkdir", make_directory);
  add_file_call(router, service, "POST", "/move", move);
  add_content_routes(router, service);
  add_archive_routes(router, service);
}

}  // namespace tb::api
