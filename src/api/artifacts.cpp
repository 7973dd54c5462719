// SPDX-License-Identifier: Apache-2.0
// Artifacts: files of a session that stay after its end.
#include "storage/artifacts.h"

#include <boost/json.hpp>

#include "api/errors.h"
#include "api/fields.h"
#include "api/file_calls.h"
#include "api/files.h"
#include "api/session_fields.h"
#include "base/iso8601.h"
#include "base/utf8.h"
#include "http/content_disposition.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr std::size_t kMostListed = 1000;

json::object render(const storage::Artifact& artifact) {
  return {{"artifact_id", artifact.id},
          {"session_id", artifact.session},
          {"thread_id", artifact.thread},
          {"user_id", artifact.user},
          {"name", to_utf8(artifact.name)},
          {"type", artifact.type},
          {"path", artifact.source.empty() ? json::value(nullptr) : json::value(artifact.source)},
          {"origin", artifact.origin},
          {"size_bytes", artifact.size.count},
          {"created_at", iso8601(artifact.created)}};
}

http::Response render(const std::vector<storage::Artifact>& artifacts) {
  json::array rows;
  for (const storage::Artifact& artifact : artifacts) {
    if (rows.size() < kMostListed) rows.push_back(render(artifact));
  }
  return answer_json(200, {{"artifacts", std::move(rows)}, {"total", artifacts.size()}});
}

// A media type goes into a header later.
std::string read_type(const json::object& body, const std::string& name) {
  std::string type = find_text(body, "type").value_or("");
  if (type.empty()) return storage::media_type_of(name);
  const auto odd = [](char c) { return c <= ' ' || c >= 0x7f || c == ',' || c == '"'; };
  if (type.size() > 100 || type.find('/') == type.npos ||
      std::any_of(type.begin(), type.end(), odd)) {
    throw http::HttpError{400, "\"type\" must be a media type such as text/csv"};
  }
  return type;
}

awaitable<http::Response> keep(FileCall& call) {
  const json::object body = co_await read_object(call.call.exchange);
  call.path = file_path_below(required_text(body, "path"));
  storage::Artifact like;
  like.name = find_text(body, "name").value_or(call.path.substr(call.path.rfind('/') + 1));
  check_name(like.name, "name");
  like.type = read_type(body, like.name);
  like.source = to_utf8(call.path);
  like.origin = "kept";
  const auto session = call.session();
  like.session = session->id;
  like.thread = session->spec.thread;
  like.user = session->spec.user;
  like.tenant = session->spec.tenant;
  const session::Use use = co_await call.service.sessions.use(session);
  const auto file = co_await use.sandbox().files().open(call.path);
  std::optional<storage::ArtifactsFull> full;
  try {
    const storage::Artifact made = co_await call.service.artifacts->keep(std::move(like), *file);
    call.service.sessions.events().artifact_kept(session->who(call.call.request_id), made.id,
                                                 made.name, made.size);
    co_return answer_json(201, render(made));
  } catch (const storage::ArtifactsFull& error) {
    full = error;
  }
  throw Refusal{507, full->what(), {{"session_id", session->id}}};
}

awaitable<http::Response> of_session(Service& service, Call& call) {
  const std::string& id = call.captured[0];
  const std::vector<storage::Artifact> kept = own_artifacts(service, call, id);
  if (kept.empty() && !find_own_session(service, call, id)) {
    const std::string shown = to_utf8(id.substr(0, 200));
    throw Refusal{404, "Session not found: " + shown, {{"session_id", shown}}};
  }
  co_return render(kept);
}

awaitable<http::Response> all(Service& service, Call& call) {
  const std::string* session = call.exchange.request().find_query("session_id");
  const std::string* user = call.exchange.request().find_query("user_id");
  co_return render(own_artifacts(service, call, session ? *session : "", user ? *user : ""));
}

awaitable<http::Response> get(Service& service, Call& call) {
  co_return answer_json(200, render(get_own_artifact(service, call)));
}

// As a download, whatever its type says: what a sandbox made is no page of ours.
awaitable<http::Response> content(Service& service, Call& call) {
  const storage::Artifact artifact = get_own_artifact(service, call);
  const auto file = co_await service.artifacts->read(artifact.id);
  const std::string etag = '"' + artifact.id + '"';
  const http::Request& request = call.exchange.request();
  const http::Slice slice = slice_of(request, artifact.size, etag);
  http::Response head;
  head.status = slice.status;
  head.content_type = artifact.type;
  head.headers.push_back({"Accept-Ranges", "bytes"});
  head.headers.push_back({"ETag", etag});
  head.headers.push_back({"X-Content-Type-Options", "nosniff"});
  head.headers.push_back({"Content-Disposition", http::attachment(artifact.name)});
  head.headers.push_back({"Content-Security-Policy", "sandbox"});
  if (!slice.content_range.empty()) head.headers.push_back({"Content-Range", slice.content_range});
  co_await call.exchange.begin(std::move(head), slice.length);
  if (request.method != "HEAD") co_await send_slice(call.exchange, *file, slice);
  co_await call.exchange.end();
  http::Response sent;
  sent.status = slice.status;
  co_return sent;
}

awaitable<http::Response> remove(Service& service, Call& call) {
  const std::string id = get_own_artifact(service, call).id;
  co_await service.artifacts->remove(id);
  co_return answer_json(200, {{"status", "deleted"}, {"artifact_id", id}});
}

}  // namespace

void add_artifact_routes(Router& router, Service& service) {
  add_file_route(router, service, "POST", "/api/sessions/{}/artifacts", keep);
  router.add("GET", "/api/sessions/{}/artifacts",
             [&service](Call& call) { return of_session(service, call); });
  router.add("GET", "/api/artifacts", [&service](Call& call) { return all(service, call); });
  router.add("GET", "/api/artifacts/{}", [&service](Call& call) { return get(service, call); });
  router.add("GET", "/api/artifacts/{}/content",
             [&service](Call& call) { return content(service, call); });
  router.add("DELETE", "/api/artifacts/{}",
             [&service](Call& call) { return remove(service, call); });
}

}  // namespace tb::api
