// SPDX-License-Identifier: Apache-2.0
#include "api/file_calls.h"

#include <charconv>

#include "api/errors.h"
#include "api/fields.h"
#include "api/files.h"
#include "base/iso8601.h"
#include "base/utf8.h"
#include "sandbox/paths.h"
#include "sandbox/writing.h"

namespace tb::api {
namespace json = boost::json;
namespace {

using sandbox::FileProblem;

int status_of(FileProblem problem) {
  switch (problem) {
    case FileProblem::not_found: return 404;
    case FileProblem::denied: return 403;
    case FileProblem::exists:
    case FileProblem::not_empty:
    case FileProblem::changed:
    case FileProblem::no_match:
    case FileProblem::ambiguous: return 409;
    case FileProblem::too_large: return 413;
    case FileProblem::full:
    case FileProblem::too_many: return 507;
    default: return 400;
  }
}

// Bodies as those of uploads.
json::object describe(const sandbox::LimitError& error) {
  switch (error.problem()) {
    case FileProblem::too_large:
      return {{"max_size_mb", mebibytes(error.limits.file)},
              {"uploaded_size_mb", mebibytes(error.size)}};
    case FileProblem::too_many:
      return {{"max_files", error.limits.count}, {"current_files", error.used.files}};
    default:
      return {{"max_workspace_mb", mebibytes(error.limits.workspace)},
              {"current_workspace_mb", mebibytes(error.used.bytes)},
              {"file_size_mb", mebibytes(error.size)}};
  }
}

void count_limit(FileCall& call, FileProblem problem) {
  const auto session = find_own_session(call.service, call.call, call.call.captured[0]);
  session::Who who{.tenant = call.call.principal.tenant};
  if (session) who = session->who(call.call.request_id);
  session::Events& events = call.service.sessions.events();
  if (problem == FileProblem::too_large) {
    events.resource_limit_exceeded(who, session::Limit::file_size);
  } else if (problem == FileProblem::too_many) {
    events.resource_limit_exceeded(who, session::Limit::file_count);
  } else if (problem == FileProblem::full) {
    events.resource_limit_exceeded(who, session::Limit::workspace_size);
  }
}

Refusal refusal_of(FileCall& call, const sandbox::FileError& error, json::object more) {
  count_limit(call, error.problem());
  more["path"] = to_utf8(call.path);
  return Refusal{status_of(error.problem()), error.what(), std::move(more)};
}

awaitable<http::Response> guard(Service& service, Call& call, FileHandler handler) {
  FileCall file_call{service, call};
  try {
    co_return co_await handler(file_call);
  } catch (const sandbox::EditError& error) {
    json::array lines(error.lines.begin(), error.lines.end());
    json::object more{{"matches", error.matches}, {"lines", std::move(lines)}};
    throw refusal_of(file_call, error, std::move(more));
  } catch (const sandbox::LimitError& error) {
    throw refusal_of(file_call, error, describe(error));
  } catch (const sandbox::FileError& error) {
    throw refusal_of(file_call, error, {});
  }
}

const char* type_name(sandbox::FileType type) {
  constexpr const char* kNames[] = {"file", "directory", "symlink", "other"};
  return kNames[static_cast<int>(type)];
}

}  // namespace

std::string file_path(std::string_view name) {
  if (auto path = sandbox::find_path(name)) return std::move(*path);
  throw Refusal{400, "Invalid filename", {{"filename", to_utf8(std::string{name.substr(0, 200)})}}};
}

std::string file_path_below(std::string_view name) {
  std::string path = file_path(name);
  if (path.empty()) {
    throw Refusal{400, "\"path\" must name something below the workspace", {{"path", name}}};
  }
  return path;
}

std::shared_ptr<session::Session> FileCall::session() const {
  return get_own_session(service, call);
}

bool FileCall::flag(const char* name) const {
  const std::string* text = request().find_query(name);
  if (!text) return false;
  if (text->empty() || *text == "1" || *text == "true") return true;
  if (*text == "0" || *text == "false") return false;
  throw http::HttpError{400, std::string{"\""} + name + "\" must be true or false"};
}

std::uint64_t FileCall::number(const char* name, std::uint64_t otherwise,
                               std::uint64_t most) const {
  const std::string* text = request().find_query(name);
  if (!text) return otherwise;
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size() || value < 1 || value > most) {
    throw http::HttpError{400, std::string{"\""} + name + "\" must be a whole number from 1 to " +
                                   std::to_string(most)};
  }
  return value;
}

std::string FileCall::text(const char* name) const {
  const std::string* found = request().find_query(name);
  return found ? *found : std::string{};
}

std::optional<unsigned> FileCall::mode() const {
  const std::string* given = request().find_query("mode");
  return given ? std::optional<unsigned>{read_mode(*given)} : std::nullopt;
}

unsigned read_mode(const std::string& text) {
  unsigned mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (error != std::errc{} || end != text.data() + text.size() || mode > 0777) {
    throw http::HttpError{400, "\"mode\" must be octal permissions up to 0777, such as 0644"};
  }
  return mode;
}

std::string required_text(const json::object& body, const char* name) {
  auto text = find_text(body, name);
  if (!text) throw http::HttpError{400, std::string{"\""} + name + "\" is missing"};
  return std::move(*text);
}

json::object render_file(const sandbox::FileInfo& info, const std::string& path) {
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", info.mode & 07777u);
  const std::size_t slash = path.rfind('/');
  json::object file{{"path", to_utf8(path)},
                    {"name", to_utf8(slash == std::string::npos ? path : path.substr(slash + 1))},
                    {"type", type_name(info.type)},
                    {"size_bytes", info.size.count},
                    {"modified", iso8601(info.modified)},
                    {"mode", mode}};
  if (!info.version.empty()) file["etag"] = '"' + info.version + '"';
  if (!info.target.empty()) file["target"] = to_utf8(info.target);
  return file;
}

http::Response answer_json(int status, const json::object& body) {
  return http::json_response(status, json::serialize(body));
}

void add_file_route(Router& router, Service& service, const char* method, const char* pattern,
                    FileHandler handler) {
  router.add(method, pattern,
             [&service, handler](Call& call) { return guard(service, call, handler); });
}

void add_file_call(Router& router, Service& service, const char* method, const char* path,
                   FileHandler handler) {
  const std::string pattern = std::string{"/api/sessions/{}/files"} + path;
  add_file_route(router, service, method, pattern.c_str(), handler);
}

}  // namespace tb::api
