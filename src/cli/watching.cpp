// SPDX-License-Identifier: Apache-2.0
#include "cli/watching.h"

namespace tb::cli {
namespace {

constexpr std::chrono::seconds kKeyLook{1};

void ignore_failure(const std::string&, std::exception_ptr) {}

}  // namespace

KeeperWatch::KeeperWatch(asio::any_io_executor executor, native::NativeProvider& provider)
    : provider_(provider), heard_(executor), tasks_(executor, ignore_failure) {}

awaitable<bool> KeeperWatch::answers(std::chrono::nanoseconds limit) {
  if (gone_) co_return false;
  if (asked_ == answered_) {
    ++asked_;
    tasks_.spawn("ask the keeper", [this] { return ask(); });
  }
  const std::uint64_t wanted = asked_;
  const auto ready = [this, wanted] { return answered_ >= wanted; };
  const bool answered = co_await heard_.until(ready, limit);
  co_return answered && !gone_;
}

awaitable<void> KeeperWatch::ask() {
  try {
    co_await provider_.hello();
  } catch (const Error&) {
    gone_ = true;
  }
  answered_ = asked_;
  heard_.notify_all();
}

Heartbeat::Heartbeat(asio::any_io_executor executor, const os::Supervisor& supervisor)
    : executor_(executor), supervisor_(supervisor), tasks_(executor, ignore_failure) {
  if (supervisor.watchdog().count() > 0) tasks_.spawn("heartbeat", [this] { return beat(); });
}

awaitable<void> Heartbeat::beat() {
  asio::steady_timer timer{executor_};
  for (;;) {
    timer.expires_after(supervisor_.watchdog() / 2);
    co_await timer.async_wait(asio::use_awaitable);
    supervisor_.tell("WATCHDOG=1");
  }
}

KeyWatch::KeyWatch(asio::any_io_executor executor, api::Router& router)
    : executor_(executor), router_(router), tasks_(executor, ignore_failure) {
  tasks_.spawn("watch keys", [this] { return look(); });
}

awaitable<void> KeyWatch::look() {
  asio::steady_timer timer{executor_};
  for (;;) {
    timer.expires_after(kKeyLook);
    co_await timer.async_wait(asio::use_awaitable);
    router_.cut_revoked();
  }
}

void Signals::on(int number, std::function<void()> act) {
  await(entries_.emplace_back(loop_, number, std::move(act)));
}

void Signals::await(Entry& entry) {
  entry.signal.async_wait([&entry](boost::system::error_code error, int) {
    if (error) return;
    entry.act();
    await(entry);
  });
}

void Signals::cancel() {
  for (Entry& entry : entries_) entry.signal.cancel();
}

}  // namespace tb::cli
