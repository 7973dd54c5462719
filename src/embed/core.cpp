// SPDX-License-Identifier: Apache-2.0
#include "embed/core.h"

#include "base/error.h"
#include "session/label.h"

namespace tb::embed {
namespace {

constexpr std::size_t kMostTransfers = 1024;  // open at once: each has a helper in its sandbox

constexpr auto kTurn = 20ms;  // that a sandbox stays at least
constexpr auto kLook = 5ms;   // whether it is still needed

session::PoolSettings pool_of(const Config& config) {
  session::PoolSettings settings;
  settings.size = config.pool_size;
  settings.minimum = config.min_pool_size;
  settings.capacity = config.max_pool_size;
  settings.refill_delay = config.pool_refill_delay;
  settings.sweep = config.cleanup_interval;
  if (config.aggressive_cleanup) settings.idle = config.pool_idle;
  settings.kind.environment = config.environment;
  settings.kind.limits = config.limits;
  settings.labelled = false;
  return settings;
}

session::Providers only(sandbox::Provider& native) {
  session::Providers providers;
  providers.add(session::kNative, native);
  return providers;
}

}  // namespace

Core::Core(asio::io_context& loop, const Config& the_config, const registry::Registry& registry)
    : config(the_config),
      lock(the_config.state_dir),
      names(loop.get_executor(), the_config.state_dir),
      events(metrics, the_config.log_commands),
      provider(loop.get_executor(), the_config.state_dir, the_config.output),
      providers(only(provider)),
      sessions(loop.get_executor(), {providers, store, events, registry},
               {pool_of(the_config), the_config.policy, the_config.session_timeout, Milliseconds{0},
                true}),
      runs(loop.get_executor()),
      contexts(loop.get_executor(), sessions, runs, {the_config.output.inline_bytes}),
      tasks_(loop.get_executor(), [](const std::string&, std::exception_ptr) {}) {
  provider.share();
  provider.start_ahead(config.prestart);
  provider.keeper().on_wanted([this](const std::string& id) { give_way(id); });
  provider.on_lost([this](bool) { lost_ = true; });
}

awaitable<void> Core::open() {
  jail::Welcome welcome = co_await provider.hello();
  barriers = std::move(welcome.barriers);
  if (lock.alone()) co_await clear_up();
  lock.share();
  co_await sessions.open();
}

// What programs that died have left; nobody else is there to need it.
awaitable<void> Core::clear_up() {
  const std::vector<sandbox::Found> all = co_await provider.list();
  provider.clear_stray_output(all);
  for (const sandbox::Found& found : all) {
    if (!session::from_label(found.label)) co_await provider.destroy(found.id);
  }
}

std::vector<int> Core::descriptors() {
  return {provider.keeper().native_handle(), lock.descriptor(), names.descriptor()};
}

awaitable<std::shared_ptr<session::Session>> Core::recall(
    std::function<bool(const session::StoredSession&)> wanted) {
  const std::vector<sandbox::Found> all = co_await provider.list();
  for (const sandbox::Found& found : all) {
    const auto stored = session::from_label(found.label);
    if (stored && wanted(*stored)) co_return sessions.remember(found);
  }
  co_return nullptr;
}

awaitable<std::shared_ptr<session::Session>> Core::reach(std::string id) {
  if (auto session = sessions.find(id)) co_return session;
  const auto same = [&id](const session::StoredSession& stored) { return stored.id == id; };
  if (auto session = co_await recall(same)) co_return session;
  co_return sessions.get(id);  // says that there is none
}

awaitable<std::shared_ptr<session::Session>> Core::find_thread(std::string thread) {
  if (thread.empty()) co_return nullptr;
  if (auto session = sessions.find_thread(thread)) co_return session;
  const auto same = [&](const session::StoredSession& stored) { return stored.thread == thread; };
  co_return co_await recall(same);
}

awaitable<session::Sessions::Result> Core::get_or_create(session::SessionSpec spec) {
  if (spec.thread.empty() || sessions.find_thread(spec.thread)) {
    co_return co_await sessions.get_or_create(std::move(spec));
  }
  const NameLocks::Held held = co_await names.lock(spec.thread);
  co_await find_thread(spec.thread);
  session::Sessions::Result result = co_await sessions.get_or_create(std::move(spec));
  // Its label was told without waiting: before anybody else asks, the keeper must have read it.
  if (!result.existed) co_await provider.hello();
  co_return result;
}

void Core::give_way(const std::string& id) {
  if (!wanted_.insert(id).second) return;
  tasks_.spawn("let go", [this, id] { return let_go(id); });
}

// As soon as nothing of ours is at work on it; but not at once after it came, or two programs that
// wait for something in the same sandbox would do nothing but pass it on.
awaitable<void> Core::let_go(std::string id) {
  asio::steady_timer timer{co_await asio::this_coro::executor, kTurn};
  co_await timer.async_wait(asio::use_awaitable);
  for (;;) {
    const auto session = sessions.find(id);
    if (!session || session->uses == 0) {
      wanted_.erase(id);
      if (session && session->sandbox) {
        sessions.release(session);
      } else {
        provider.keeper().release(id);
      }
      co_return;
    }
    timer.expires_after(kLook);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

void Core::keep(shell::Run run) {
  const auto held = std::make_shared<shell::Run>(std::move(run));
  tasks_.spawn("keep", [held]() -> awaitable<void> { co_await held->process()->wait(); });
}

awaitable<void> Core::close() {
  transfers_.clear();
  co_await tasks_.close();
  co_await sessions.close();
  co_await store.close();
  co_await provider.close();
}

std::shared_ptr<Transfer> Core::transfer(std::uint64_t handle) const {
  const auto found = transfers_.find(handle);
  if (found == transfers_.end()) throw Error{Code::unavailable, "the transfer was broken off"};
  return found->second;
}

std::shared_ptr<CodeStream> Core::code_stream(std::uint64_t handle) const {
  const auto found = code_streams_.find(handle);
  if (found == code_streams_.end()) throw Error{Code::conflict, "the stream was closed"};
  return found->second;
}

std::uint64_t Core::add(std::shared_ptr<CodeStream> stream) {
  code_streams_.emplace(next_transfer_, std::move(stream));
  return next_transfer_++;
}

std::uint64_t Core::add(std::shared_ptr<Transfer> transfer) {
  if (transfers_.size() >= kMostTransfers) {
    throw Error{Code::exhausted, "1024 files are open already: read or close some of them"};
  }
  transfers_[next_transfer_] = std::move(transfer);
  return next_transfer_++;
}

}  // namespace tb::embed
