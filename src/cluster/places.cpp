// SPDX-License-Identifier: Apache-2.0
// Where a session or a thread is, as far as a coordinator can know: remembered, read in the
// directory, or asked of the workers.
#include <boost/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/sha256.h"
#include "cluster/address.h"
#include "cluster/fleet.h"
#include "session/store.h"

namespace tb::cluster {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostRemembered = 200'000;

// As it stands in a query.
std::string escaped(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = std::isalnum(byte) || c == '-' || c == '_' || c == '.' || c == '~';
    if (plain) {
      out += c;
    } else {
      out.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return out;
}

// Nobody's credentials are kept, only what is the same when they are shown again.
std::string digest_of(const Fleet::Caller& caller) {
  const std::string credentials = credentials_in(caller);
  if (credentials.empty()) return {};
  const auto hash = sha256(credentials);
  return {hash.begin(), hash.end()};
}

std::optional<std::string> tenant_in(const std::string& body) {
  json::error_code error;
  const json::value value = json::parse(body, error);
  const json::object* object = error ? nullptr : value.if_object();
  const json::value* tenant = object ? object->if_contains("tenant") : nullptr;
  if (!tenant || !tenant->is_string()) return std::nullopt;
  return std::string{tenant->get_string()};
}

}  // namespace

void Fleet::remember(const std::string& session, const std::string& worker) {
  if (sessions_.size() >= kMostRemembered) sessions_.clear();
  sessions_[session] = worker;
}

void Fleet::forget(const std::string& session) { sessions_.erase(session); }

void Fleet::forget_tenant(const Caller& caller) { tenants_.erase(digest_of(caller)); }

// One that has joined since we last read who there is, is not yet known here.
awaitable<std::shared_ptr<Worker>> Fleet::find_or_read(std::string id) {
  if (id.empty()) co_return nullptr;
  if (auto worker = find(id)) co_return worker;
  if (directory_connected()) co_await read_registry();
  co_return find(id);
}

awaitable<Place> Fleet::find_session(std::string session, Caller caller) {
  const auto known = sessions_.find(session);
  if (known != sessions_.end()) {
    if (const auto worker = find(known->second)) co_return Place{worker};
    sessions_.erase(known);
  }
  if (directory_connected()) {
    try {
      redis::Command command{"GET", session_key(session)};
      const redis::Reply reply = co_await redis_->call(std::move(command));
      const std::shared_ptr<Worker> worker = co_await find_or_read(reply.text);
      if (worker) remember(session, worker->id);
      co_return Place{worker};
    } catch (const Error& error) {
      log(LogLevel::debug, "directory_not_read", {{"error", error.what()}});
    }
  }
  Place place = co_await ask_all("/api/sessions/" + escaped(session), {}, std::move(caller));
  if (place.worker && !place.refused) remember(session, place.worker->id);
  co_return place;
}

awaitable<Place> Fleet::find_thread(std::string thread, Caller caller) {
  if (!redis_) co_return Place{choose(thread)};
  if (directory_connected()) {
    try {
      const std::optional<std::string> tenant = co_await find_tenant(caller);
      if (!tenant) co_return Place{};
      co_return co_await read_entry(session::thread_key(*tenant, thread));
    } catch (const Error& error) {
      log(LogLevel::debug, "directory_not_read", {{"error", error.what()}});
    }
  }
  Place place = co_await ask_all("/api/sessions?limit=1&thread_id=" + escaped(thread),
                                 "\"session_id\":", std::move(caller));
  if (!place.worker) place.certain = false;
  co_return place;
}

awaitable<Place> Fleet::read_entry(std::string key) {
  redis::Command command{"GET", thread_key(key)};
  const redis::Reply reply = co_await redis_->call(std::move(command));
  const std::optional<Entry> entry = parse_entry(reply.text);
  if (!entry) co_return Place{};
  const std::shared_ptr<Worker> worker = co_await find_or_read(entry->worker);
  if (!worker || worker->record.epoch != entry->epoch) co_return Place{};
  co_return Place{worker};
}

// Whose threads this caller means: the workers know. Empty when they say that it may not come in,
// which one of them will say again.
awaitable<std::optional<std::string>> Fleet::find_tenant(Caller caller) {
  const std::string digest = digest_of(caller);
  if (digest.empty()) co_return std::string{};
  const auto known = tenants_.find(digest);
  if (known != tenants_.end()) co_return known->second;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const std::shared_ptr<Worker> worker = any();
    if (!worker) break;
    try {
      const http::Response answer = co_await get(worker, "/cluster/caller", caller);
      if (answer.status != 200) co_return std::nullopt;
      const std::optional<std::string> tenant = tenant_in(answer.body);
      if (!tenant) co_return std::nullopt;
      if (tenants_.size() >= kMostRemembered) tenants_.clear();
      tenants_[digest] = *tenant;
      co_return tenant;
    } catch (const Error&) {
      avoid(*worker);
    }
  }
  co_return std::nullopt;
}

// The one that answers 200, with `sign` in its answer. Without a directory that is how to know.
// One that does not let the caller in is the one to say so.
awaitable<Place> Fleet::ask_all(std::string target, std::string sign, Caller caller) {
  Place place;
  for (const std::shared_ptr<Worker>& worker : all()) {
    try {
      const http::Response answer = co_await get(worker, target, caller);
      const bool has = answer.status == 200 && answer.body.find(sign) != std::string::npos;
      place.refused = answer.status == 401;
      if (has || place.refused) place.worker = worker;
      if (place.worker) co_return place;
    } catch (const Error&) {
      place.certain = false;
    }
  }
  co_return place;
}

}  // namespace tb::cluster
