// SPDX-License-Identifier: Apache-2.0
#include "cluster/mover.h"

#include <boost/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "net/url.h"
#include "session/label.h"

namespace tb::cluster {
namespace {

namespace json = boost::json;

constexpr Milliseconds kAgain = 500ms;     // busy ones are looked at
constexpr Milliseconds kTransfer = 10min;  // for all files of one
constexpr Milliseconds kExpected = 15min;  // until one that does not arrive is dropped

net::Client::Settings client_settings() {
  net::Client::Settings settings;
  settings.connect = 5s;
  return settings;
}

// All that the sandbox could write is let in again.
sandbox::FileLimits no_limits() {
  sandbox::FileLimits limits;
  limits.file = limits.workspace = Bytes{UINT64_MAX};
  limits.count = UINT64_MAX;
  return limits;
}

}  // namespace

Mover::Mover(asio::any_io_executor executor, Parts parts)
    : executor_(executor),
      parts_(std::move(parts)),
      client_(executor, client_settings()),
      change_(executor),
      tasks_(executor, [](const std::string&, std::exception_ptr) {}) {}

awaitable<void> Mover::close() { return tasks_.close(); }

void Mover::drain() {
  if (parts_.membership.draining()) return;
  moved_ = 0;
  problem_.clear();
  parts_.membership.set_draining(true);
  log(LogLevel::warning, "drain_began",
      {{"sessions", std::to_string(parts_.sessions.count()), true}});
  if (!std::exchange(emptying_, true)) {
    tasks_.spawn("drain", [this] { return empty_out(); });
  }
}

void Mover::stop_draining() {
  parts_.membership.set_draining(false);
  change_.notify_all();
}

session::Moves::State Mover::state() const {
  State state;
  state.draining = parts_.membership.draining();
  state.left = parts_.sessions.count();
  state.moved = moved_;
  for (const auto& session : parts_.sessions.all()) {
    state.tied += session->spec.mounts.empty() ? 0 : 1;
  }
  state.problem = problem_;
  return state;
}

std::shared_ptr<session::Session> Mover::leaving(const std::string& session) const {
  const auto found = leaving_.find(session);
  if (found == leaving_.end()) throw Error{Code::not_found, "this session is not about to leave"};
  return found->second;
}

// What runs is waited for, however long it takes.
awaitable<void> Mover::empty_out() {
  bool told = false;
  while (parts_.membership.draining()) {
    for (const Held& session : parts_.sessions.all()) {
      if (!parts_.membership.draining()) break;
      if (session->spec.mounts.empty()) co_await move(session);
    }
    if (parts_.sessions.count() == 0 && !std::exchange(told, true)) {
      log(LogLevel::warning, "drained", {{"moved", std::to_string(moved_), true}});
    }
    auto over = [this] { return !parts_.membership.draining(); };
    co_await change_.until(over, kAgain);
  }
  emptying_ = false;
}

awaitable<void> Mover::move(Held session) {
  const std::optional<Membership::Peer> to = parts_.membership.least_loaded();
  if (!to) {
    problem_ = "no other worker takes sessions";
    co_return;
  }
  if (session::Sessions::in_use(*session)) co_return;
  std::string failure;
  try {
    {
      const session::Use awake = co_await parts_.sessions.look(session);
    }
    if (!parts_.sessions.hold(session)) co_return;
    leaving_[session->id] = session;
    co_await send(session, *to);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  if (!failure.empty()) {
    problem_ = failure;
    log(LogLevel::warning, "session_not_moved",
        {{"session", session->id.substr(0, 12)}, {"worker", to->id}, {"error", failure}});
  }
  if (leaving_.contains(session->id)) co_await settle(session, *to);
}

// Never two that run: ours ends before the other one has the thread.
awaitable<void> Mover::send(Held session, Membership::Peer to) {
  const json::object expected{{"session_id", session->id},
                              {"label", session::to_label(session::to_stored(*session))},
                              {"from", parts_.membership.url()}};
  co_await tell(to.url + "/cluster/arrivals", json::serialize(expected));
  co_await parts_.stop(session->id);
  const json::object arrived{{"worker", parts_.membership.id()},
                             {"epoch", parts_.membership.epoch()}};
  co_await tell(to.url + "/cluster/arrivals/" + session->id, json::serialize(arrived));
}

// Whose it is, is what the directory says, whatever we heard of the other worker.
awaitable<void> Mover::settle(Held session, Membership::Peer to) {
  std::optional<std::string> owner;
  asio::steady_timer timer{executor_};
  for (;;) {
    try {
      owner = co_await parts_.membership.find_owner(session->thread_key(), session->id);
    } catch (const Error& error) {
      log(LogLevel::debug, "owner_not_known", {{"error", error.what()}});
    }
    if (owner) break;
    timer.expires_after(kAgain);
    co_await timer.async_wait(asio::use_awaitable);
  }
  leaving_.erase(session->id);
  if (*owner != to.id) {
    parts_.sessions.resume(session);
    co_return;
  }
  ++moved_;
  session::Sessions::Destination there{to.id, to.url};
  co_await parts_.sessions.leave(session, std::move(there));
}

awaitable<void> Mover::tell(std::string url, std::string body) {
  net::Ask ask;
  ask.method = "POST";
  ask.url = net::parse_url(url);
  ask.headers = {{"X-Cluster-Secret", parts_.secret}, {"Content-Type", "application/json"}};
  ask.body = std::move(body);
  ask.answer = kTransfer;
  const std::unique_ptr<net::Answer> answer = co_await client_.send(std::move(ask));
  const std::string said = co_await answer->read_all(64_KiB);
  if (answer->status() != 200) {
    throw Error{Code::unavailable,
                url + " answered " + std::to_string(answer->status()) + ": " + said.substr(0, 300)};
  }
}

awaitable<void> Mover::expect(std::string session, std::string label, std::string from) {
  parts_.membership.check_open();
  if (!parts_.membership.knows(from)) {
    throw Error{Code::invalid, from + " is no worker of this cluster"};
  }
  if (expected_.contains(session)) throw Error{Code::conflict, "it is expected already"};
  expected_[session] = nullptr;
  Held made;
  std::exception_ptr failure;
  try {
    made = co_await parts_.sessions.expect(session, std::move(label));
    co_await fetch_files(made, std::move(from));
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    expected_.erase(session);
    if (made) co_await parts_.sessions.turn_away(made);
    std::rethrow_exception(failure);
  }
  expected_[session] = made;
  tasks_.spawn("expected", [this, session] { return drop_later(session); });
}

awaitable<void> Mover::fetch_files(Held session, std::string from) {
  net::Ask ask;
  ask.url = net::parse_url(from + "/cluster/leaving/" + session->id);
  ask.headers = {{"X-Cluster-Secret", parts_.secret}};
  const std::unique_ptr<net::Answer> answer = co_await client_.send(std::move(ask));
  if (answer->status() != 200) {
    throw Error{Code::unavailable, from + " answered " + std::to_string(answer->status())};
  }
  const std::shared_ptr<sandbox::Sandbox> sandbox = session->sandbox;
  if (!sandbox) throw Error{Code::unavailable, "the new sandbox has ended again"};
  const auto archive = co_await sandbox->files().unpack({}, no_limits());
  for (;;) {
    const std::string piece = co_await answer->read();
    if (piece.empty()) break;
    const bool wanted = co_await archive->write(piece);
    if (!wanted) break;
  }
  co_await archive->finish();
}

awaitable<void> Mover::arrive(std::string session, std::string worker, std::string epoch) {
  const auto found = expected_.find(session);
  if (found == expected_.end() || !found->second) {
    throw Error{Code::not_found, "this session is not expected"};
  }
  const Held arriving = found->second;
  expected_.erase(found);
  auto take = [this, arriving, worker, epoch] {
    return parts_.membership.take_over(arriving->thread_key(), arriving->id, worker, epoch);
  };
  std::function<awaitable<std::uint64_t>()> hand_over = take;
  co_await parts_.sessions.arrive(arriving, std::move(hand_over));
}

awaitable<void> Mover::drop_later(std::string session) {
  const Held made = expected_[session];
  asio::steady_timer timer{executor_, kExpected};
  co_await timer.async_wait(asio::use_awaitable);
  const auto found = expected_.find(session);
  if (found == expected_.end() || found->second != made) co_return;
  expected_.erase(found);
  log(LogLevel::warning, "session_never_arrived", {{"session", session.substr(0, 12)}});
  co_await parts_.sessions.turn_away(made);
}

}  // namespace tb::cluster
