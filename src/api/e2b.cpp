// SPDX-License-Identifier: Apache-2.0
// Files of a session in the dialect of the /api system: JSON with base64, whatever made the
// sandbox.
#include <algorithm>
#include <boost/json.hpp>

#include "api/errors.h"
#include "api/fields.h"
#include "api/files.h"
#include "api/paths.h"
#include "api/service.h"
#include "base/iso8601.h"
#include "base/sha256.h"
#include "base/utf8.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr std::size_t kMostListed = 10'000;
constexpr Bytes kMostRead = 12_MiB;  // as much as fits into a body that writes it

std::shared_ptr<session::Session> find_session(const Service& service, const Call& call,
                                               const std::string& id) {
  if (auto session = find_own_session(service, call, id)) return session;
  const std::string shown = to_utf8(id.substr(0, 200));
  throw Refusal{404, "Session not found: " + shown, {{"session_id", shown}}};
}

// Relative to the workspace, or absolute and then below it.
std::string inside_workspace(const std::string& path) {
  std::string_view rest = path;
  if (rest.starts_with(kWorkspace) && (rest.size() == 10 || rest[10] == '/')) {
    rest.remove_prefix(10);
  } else if (rest.starts_with('/') && rest.find_first_not_of('/') != rest.npos) {
    throw Refusal{400,
                  "Only files below /workspace can be reached",
                  {{"file_path", to_utf8(path.substr(0, 200))}}};
  }
  while (rest.starts_with('/')) rest.remove_prefix(1);
  while (rest.ends_with('/')) rest.remove_suffix(1);
  return rest.empty() || rest == "." ? std::string{} : workspace_path(rest);
}

const char* type_name(sandbox::FileType type) {
  constexpr const char* kNames[] = {"file", "directory", "symlink", "other"};
  return kNames[static_cast<int>(type)];
}

awaitable<sandbox::Listing> list_directory(sandbox::Sandbox& box, const std::string& path) {
  std::optional<sandbox::FileError> failure;
  try {
    co_return co_await box.files().list(path, kMostListed);
  } catch (const sandbox::FileError& error) {
    failure = error;
  }
  refuse_file(*failure, path);
}

awaitable<http::Response> list(Service& service, Call& call) {
  const std::string* asked = call.exchange.request().find_query("directory");
  const std::string directory = asked ? *asked : "/";
  const std::string path = inside_workspace(directory);
  const auto session = find_session(service, call, call.captured[0]);
  const session::Use use = co_await service.sessions.look(session);
  sandbox::Listing listing = co_await list_directory(use.sandbox(), path);
  std::sort(listing.files.begin(), listing.files.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  json::array names;
  json::array entries;
  for (const sandbox::FileInfo& info : listing.files) {
    const std::string name = to_utf8(info.name);
    names.emplace_back(name);
    entries.push_back({{"name", name},
                       {"type", type_name(info.type)},
                       {"size_bytes", info.size.count},
                       {"modified", iso8601(info.modified)}});
  }
  json::object answer{{"session_id", session->id},
                      {"directory", to_utf8(directory)},
                      {"files", std::move(names)},
                      {"entries", std::move(entries)},
                      {"truncated", !listing.complete}};
  service.sessions.events().files_listed();
  co_return http::json_response(200, json::serialize(answer));
}

awaitable<std::string> read_whole(sandbox::Sandbox& box, const std::string& path) {
  std::optional<sandbox::FileError> failure;
  try {
    const auto file = co_await box.files().open(path);
    if (file->info().size > kMostRead) {
      throw Refusal{413, "The file is larger than 12 MiB: take it from /download_file", {}};
    }
    std::string bytes(file->info().size.count, '\0');
    std::size_t have = 0;
    while (have < bytes.size()) {
      const std::span<char> rest{bytes.data() + have, bytes.size() - have};
      const std::size_t got = co_await file->read(have, rest);
      if (got == 0) break;
      have += got;
    }
    bytes.resize(have);
    co_return bytes;
  } catch (const sandbox::FileError& error) {
    failure = error;
  }
  refuse_file(*failure, path);
}

awaitable<http::Response> read(Service& service, Call& call) {
  const auto began = std::chrono::steady_clock::now();
  const std::string& asked = call.captured[1];
  const std::string path = inside_workspace(asked);
  if (path.empty()) throw Refusal{400, "Invalid filename", {{"filename", to_utf8(asked)}}};
  const auto session = find_session(service, call, call.captured[0]);
  const session::Use use = co_await service.sessions.use(session);
  const std::string bytes = co_await read_whole(use.sandbox(), path);
  service.sessions.events().file_downloaded(session->who(call.request_id), Bytes{bytes.size()},
                                            since(began));
  json::object answer{{"session_id", session->id},
                      {"file_path", to_utf8(asked)},
                      {"content", base64(bytes)},
                      {"encoding", "base64"}};
  co_return http::json_response(200, json::serialize(answer));
}

void check_limits(const Service& service, const session::Session& session,
                  const sandbox::Usage& used, Bytes size) {
  const FileLimits& limits = service.file_limits;
  if (size > limits.file) {
    throw Refusal{413,
                  "File size exceeds maximum allowed size",
                  {{"max_size_mb", mebibytes(limits.file)}, {"uploaded_size_mb", mebibytes(size)}}};
  }
  if (used.files >= limits.count) {
    throw Refusal{507,
                  "Maximum file count exceeded",
                  {{"max_files", limits.count}, {"current_files", used.files}}};
  }
  const Bytes most = workspace_limit(service, session);
  if (used.bytes + size > most) {
    throw Refusal{507,
                  "Workspace size limit exceeded",
                  {{"max_workspace_mb", mebibytes(most)},
                   {"current_workspace_mb", mebibytes(used.bytes)},
                   {"file_size_mb", mebibytes(size)}}};
  }
}

awaitable<void> write_whole(const Service& service, std::shared_ptr<session::Session> session,
                            sandbox::Sandbox& box, const std::string& path,
                            const std::string& bytes) {
  std::optional<sandbox::FileError> failure;
  try {
    const auto file = co_await box.files().create();
    check_limits(service, *session, file->used(), Bytes{bytes.size()});
    co_await file->write(bytes);
    co_await file->commit(path);
    co_return;
  } catch (const sandbox::FileError& error) {
    failure = error;
  }
  refuse_file(*failure, path);
}

awaitable<http::Response> write(Service& service, Call& call) {
  const auto began = std::chrono::steady_clock::now();
  const json::object body = co_await read_object(call.exchange);
  const auto id = find_text(body, "session_id");
  const auto asked = find_text(body, "file_path");
  const auto content = find_text(body, "content");
  if (!id || !asked || !content) {
    throw http::HttpError{400, "session_id, file_path and content required"};
  }
  const std::string path = inside_workspace(*asked);
  if (path.empty()) throw Refusal{400, "Invalid filename", {{"filename", to_utf8(*asked)}}};
  const std::optional<std::string> bytes = from_base64(*content);
  if (!bytes) throw http::HttpError{400, "\"content\" must be base64"};
  const auto session = find_session(service, call, *id);
  const session::Use use = co_await service.sessions.use(session);
  co_await write_whole(service, session, use.sandbox(), path, *bytes);
  service.sessions.events().file_uploaded(session->who(call.request_id), Bytes{bytes->size()},
                                          since(began));
  json::object answer{{"status", "success"}, {"file_path", *asked}, {"size_bytes", bytes->size()}};
  co_return http::json_response(200, json::serialize(answer));
}

awaitable<http::Response> url(Service& service, Call& call) {
  const auto session = find_session(service, call, call.captured[0]);
  const std::string place = session->sandbox ? session->sandbox->url() : std::string{};
  json::object answer{{"session_id", session->id},
                      {"url", place.empty() ? json::value(nullptr) : json::value(place)}};
  co_return http::json_response(200, json::serialize(answer));
}

}  // namespace

void add_e2b_routes(Router& router, Service& service) {
  router.add("GET", "/api/e2b/files/{}", [&service](Call& call) { return list(service, call); });
  router.add("GET", "/api/e2b/files/{}/{*}",
             [&service](Call& call) { return read(service, call); });
  router.add("POST", "/api/e2b/files", [&service](Call& call) { return write(service, call); });
  router.add("GET", "/api/e2b/url/{}", [&service](Call& call) { return url(service, call); });
}

}  // namespace tb::api
