// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/bucket.h"

#include <ctime>

#include "base/error.h"
#include "net/url.h"

namespace tb::checkpoints {
namespace {

constexpr int kAttempts = 3;
constexpr Bytes kMostAnswer{kMostObject};

std::string now_as_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

net::Client::Settings client_settings(const std::string& authorities) {
  net::Client::Settings settings;
  settings.authorities = authorities;
  settings.authorities_setting = "WORKSPACE_S3_CA_FILE";
  return settings;
}

Error refused(const std::string& method, int status, const std::string& body) {
  const std::vector<std::string> code = elements(body, "Code");
  return Error{Code::unavailable, "WORKSPACE_STORE: " + method + " was answered " +
                                      std::to_string(status) +
                                      (code.empty() ? "" : " (" + code.front() + ")")};
}

std::string resolve_entities(std::string_view text) {
  constexpr std::pair<std::string_view, char> kEntities[] = {
      {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
  std::string out;
  while (!text.empty()) {
    std::size_t size = 1;
    char c = text.front();
    for (const auto& [entity, meant] : kEntities) {
      if (!text.starts_with(entity)) continue;
      size = entity.size();
      c = meant;
    }
    out += c;
    text.remove_prefix(size);
  }
  return out;
}

}  // namespace

std::vector<std::string> elements(std::string_view xml, const std::string& name) {
  const std::string open = "<" + name + ">";
  const std::string close = "</" + name + ">";
  std::vector<std::string> found;
  for (;;) {
    const std::size_t begin = xml.find(open);
    if (begin == xml.npos) return found;
    xml.remove_prefix(begin + open.size());
    const std::size_t end = xml.find(close);
    if (end == xml.npos) return found;
    found.push_back(resolve_entities(xml.substr(0, end)));
    xml.remove_prefix(end + close.size());
  }
}

Bucket::Bucket(asio::any_io_executor executor, Settings settings)
    : settings_(std::move(settings)), client_(executor, client_settings(settings_.authorities)) {
  net::parse_url(settings_.endpoint + "/");
}

awaitable<Bucket::Reply> Bucket::ask_once(std::string method, std::string key, std::string query,
                                          std::string body) {
  std::string path = "/" + encode_uri(settings_.bucket, false);
  if (!key.empty()) path += "/" + encode_uri(settings_.prefix + key, true);
  net::Ask ask;
  ask.url = net::parse_url(settings_.endpoint + path + (query.empty() ? "" : "?" + query));
  Signed request;
  request.method = method;
  request.host = ask.url.authority();
  request.path = path;
  request.query = query;
  request.body = body;
  request.time = now_as_text();
  ask.headers = sign(settings_.signer, request);
  ask.method = std::move(method);
  ask.body = body;
  ask.repeatable = true;
  const std::unique_ptr<net::Answer> answer = co_await client_.send(std::move(ask));
  Reply reply;
  reply.status = answer->status();
  reply.body = co_await answer->read_all(kMostAnswer);
  co_return reply;
}

// All that is asked can be asked again.
awaitable<Bucket::Reply> Bucket::ask(std::string method, std::string key, std::string query,
                                     std::string body) {
  for (int attempt = 1;; ++attempt) {
    std::string problem;
    Reply reply;
    try {
      reply = co_await ask_once(method, key, query, body);
    } catch (const Error& error) {
      problem = error.what();
    }
    const bool sound = problem.empty() && reply.status < 500;
    if (sound) co_return reply;
    if (attempt < kAttempts) continue;
    if (problem.empty()) throw refused(method, reply.status, reply.body);
    throw Error{Code::unavailable, "WORKSPACE_STORE: " + problem};
  }
}

awaitable<void> Bucket::put(std::string key, std::string bytes) {
  const Reply reply = co_await ask("PUT", std::move(key), {}, std::move(bytes));
  if (reply.status != 200) throw refused("PUT", reply.status, reply.body);
}

awaitable<std::optional<std::string>> Bucket::get(std::string key) {
  Reply reply = co_await ask("GET", std::move(key), {}, {});
  if (reply.status == 404) co_return std::nullopt;
  if (reply.status != 200) throw refused("GET", reply.status, reply.body);
  co_return std::move(reply.body);
}

awaitable<std::vector<std::string>> Bucket::list(std::string prefix) {
  std::vector<std::string> keys;
  std::string after;
  for (;;) {
    std::string query;
    if (!after.empty()) query = "continuation-token=" + encode_uri(after, false) + "&";
    query += "list-type=2&prefix=" + encode_uri(settings_.prefix + prefix + "/", false);
    const Reply reply = co_await ask("GET", {}, std::move(query), {});
    if (reply.status != 200) throw refused("GET", reply.status, reply.body);
    for (const std::string& key : elements(reply.body, "Key")) {
      if (key.starts_with(settings_.prefix)) keys.push_back(key.substr(settings_.prefix.size()));
    }
    const std::vector<std::string> more = elements(reply.body, "NextContinuationToken");
    if (more.empty()) co_return keys;  // S3 lists in the order of keys
    after = more.front();
  }
}

awaitable<void> Bucket::remove(std::string key) {
  const Reply reply = co_await ask("DELETE", std::move(key), {}, {});
  const bool gone = reply.status == 204 || reply.status == 200 || reply.status == 404;
  if (!gone) throw refused("DELETE", reply.status, reply.body);
}

}  // namespace tb::checkpoints
