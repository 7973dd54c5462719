// SPDX-License-Identifier: Apache-2.0
#include "session/pool.h"

#include "base/error.h"
#include "base/id.h"
#include "base/log.h"

namespace tb::session {
namespace {

constexpr auto kPauseAfterFailure = 2s;

}  // namespace

Pool::Pool(asio::any_io_executor executor, sandbox::Provider& provider, PoolSettings settings,
           Metrics* metrics)
    : provider_(provider),
      settings_(std::move(settings)),
      metrics_(metrics),
      wanted_(executor),
      made_(executor),
      tasks_(executor, [](const std::string&, std::exception_ptr) {}) {}

void Pool::open() {
  tasks_.spawn("refill", [this] { return refill(); });
}

awaitable<void> Pool::close() { co_await tasks_.close(); }

awaitable<std::shared_ptr<sandbox::Sandbox>> Pool::make() {
  sandbox::SandboxSpec spec;
  spec.id = make_uuid();
  spec.environment = settings_.environment;
  spec.limits = settings_.limits;
  const auto began = std::chrono::steady_clock::now();
  std::shared_ptr<sandbox::Sandbox> made;
  try {
    made = co_await provider_.create(std::move(spec));
  } catch (...) {
    if (metrics_) metrics_->sandbox_creations_failed.add();
    throw;
  }
  if (metrics_) metrics_->sandbox_create.observe(std::chrono::steady_clock::now() - began);
  co_return made;
}

void Pool::gone() {
  --used_;
  wanted_.notify_all();
}

void Pool::reserve() {
  if (used_ + making_ >= settings_.capacity) {
    if (metrics_) metrics_->pool_exhausted.add();
    throw Error{Code::exhausted, "Pool at max capacity, try again later"};
  }
  ++used_;
}

std::shared_ptr<sandbox::Sandbox> Pool::take_ready() {
  while (!ready_.empty()) {
    std::shared_ptr<sandbox::Sandbox> sandbox = std::move(ready_.front());
    ready_.pop_front();
    wanted_.notify_all();
    if (!sandbox->alive()) continue;
    ++used_;
    if (metrics_) metrics_->pool_hits.add();
    return sandbox;
  }
  return nullptr;
}

awaitable<std::shared_ptr<sandbox::Sandbox>> Pool::take() {
  if (auto sandbox = take_ready()) co_return sandbox;
  // The last place is being filled: that one is for us.
  while (making_ > 0 && used_ + making_ >= settings_.capacity) {
    co_await made_.wait();
    if (auto sandbox = take_ready()) co_return sandbox;
  }
  reserve();  // at once: others must not count on the same place
  if (metrics_) metrics_->pool_misses.add();
  try {
    co_return co_await make();
  } catch (...) {
    gone();
    throw;
  }
}

bool Pool::drop(const std::string& id) {
  const auto same = [&](const auto& sandbox) { return sandbox->id() == id; };
  if (std::erase_if(ready_, same) == 0) return false;
  wanted_.notify_all();
  return true;
}

awaitable<void> Pool::refill() {
  auto executor = co_await asio::this_coro::executor;
  for (;;) {
    if (ready_.size() >= settings_.size || ready_.size() + used_ >= settings_.capacity) {
      co_await wanted_.wait();
      continue;
    }
    bool failed = false;
    ++making_;
    try {
      std::shared_ptr<sandbox::Sandbox> sandbox = co_await make();
      ready_.push_back(std::move(sandbox));
    } catch (const Error& error) {
      failed = true;
      log(LogLevel::warning, "pool_refill_failed", {{"error", error.what()}});
    }
    --making_;
    made_.notify_all();
    if (failed) {
      asio::steady_timer pause{executor, kPauseAfterFailure};
      co_await pause.async_wait(asio::use_awaitable);
    }
  }
}

}  // namespace tb::session
