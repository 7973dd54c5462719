// SPDX-License-Identifier: Apache-2.0
#include "session/pool.h"

#include "base/error.h"
#include "base/id.h"
#include "base/log.h"

namespace tb::session {
namespace {

constexpr auto kPauseAfterFailure = 2s;

// Tells ready sandboxes of another configuration apart.
std::string describe(const PoolSettings& settings) {
  const sandbox::Limits& limits = settings.limits;
  std::string text = "ready " + settings.environment;
  for (const std::uint64_t number :
       {limits.memory.count, limits.disk.count, std::uint64_t{limits.cpu_quota},
        std::uint64_t{limits.pids}, std::uint64_t{limits.open_files}}) {
    text += " " + std::to_string(number);
  }
  for (const std::string& program : settings.programs) text += " " + program;
  return text;
}

}  // namespace

Pool::Pool(asio::any_io_executor executor, sandbox::Provider& provider, PoolSettings settings,
           Metrics* metrics)
    : provider_(provider),
      settings_(std::move(settings)),
      metrics_(metrics),
      label_(describe(settings_)),
      wanted_(executor),
      made_(executor),
      tasks_(executor, [](const std::string&, std::exception_ptr) {}) {}

void Pool::open() {
  tasks_.spawn("tend the pool", [this] { return tend(); });
}

awaitable<void> Pool::close() { co_await tasks_.close(); }

sandbox::SandboxSpec Pool::spec_for(std::vector<std::string> programs) const {
  sandbox::SandboxSpec spec;
  spec.id = make_uuid();
  spec.environment = settings_.environment;
  spec.limits = settings_.limits;
  spec.programs = std::move(programs);
  return spec;
}

awaitable<std::shared_ptr<sandbox::Sandbox>> Pool::make(sandbox::SandboxSpec spec) {
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

awaitable<std::shared_ptr<sandbox::Sandbox>> Pool::take(std::vector<std::string> programs) {
  const auto now = Clock::now();
  last_taken_ = now;
  if (now >= grow_at_) grow_at_ = now + settings_.refill_delay;
  const bool like_ready_ones = programs == settings_.programs;
  for (;;) {
    std::shared_ptr<sandbox::Sandbox> sandbox = like_ready_ones ? take_ready() : nullptr;
    if (sandbox) co_return sandbox;
    // The last place is being filled: that one is for us.
    if (making_ == 0 || used_ + making_ < settings_.capacity) break;
    co_await made_.wait();
  }
  co_return co_await make_now(std::move(programs));
}

awaitable<void> Pool::give_way() {
  if (!ready_.empty() && total() > settings_.capacity) co_await remove_ready();
}

awaitable<std::shared_ptr<sandbox::Sandbox>> Pool::make_now(std::vector<std::string> programs) {
  reserve();  // at once: others must not count on the same place
  if (metrics_) metrics_->pool_misses.add();
  try {
    co_await give_way();
    sandbox::SandboxSpec spec = spec_for(std::move(programs));
    co_return co_await make(std::move(spec));
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

std::size_t Pool::wanted_now() const {
  const auto now = Clock::now();
  const bool unused = settings_.idle.count() > 0 && now - last_taken_ > settings_.idle;
  return unused || now < grow_at_ ? std::min(settings_.minimum, settings_.size) : settings_.size;
}

bool Pool::lacks() const { return ready_.size() < wanted_now() && total() < settings_.capacity; }

bool Pool::exceeds() const {
  const bool unused = settings_.idle.count() > 0 && Clock::now() - last_taken_ > settings_.idle;
  return !ready_.empty() &&
         (total() > settings_.capacity || (unused && ready_.size() > wanted_now()));
}

Milliseconds Pool::until_change() const {
  const auto growing = std::chrono::ceil<Milliseconds>(grow_at_ - Clock::now());
  return growing.count() > 0 ? std::min(growing, settings_.sweep) : settings_.sweep;
}

awaitable<void> Pool::tend() {
  for (;;) {
    if (lacks()) {
      co_await make_ready();
    } else if (exceeds()) {
      co_await remove_ready();
    } else {
      co_await wanted_.until([this] { return lacks(); }, until_change());
    }
  }
}

awaitable<void> Pool::make_ready() {
  bool failed = false;
  ++making_;
  try {
    sandbox::SandboxSpec spec = spec_for(settings_.programs);
    if (settings_.labelled) spec.label = label_;
    std::shared_ptr<sandbox::Sandbox> sandbox = co_await make(std::move(spec));
    ready_.push_back(std::move(sandbox));
  } catch (const Error& error) {
    failed = true;
    log(LogLevel::warning, "pool_refill_failed", {{"error", error.what()}});
  }
  --making_;
  made_.notify_all();
  if (!failed) co_return;
  asio::steady_timer pause{co_await asio::this_coro::executor, kPauseAfterFailure};
  co_await pause.async_wait(asio::use_awaitable);
}

awaitable<void> Pool::remove_ready() {
  const std::string id = ready_.back()->id();
  ready_.pop_back();
  co_await provider_.destroy(id);
}

}  // namespace tb::session
