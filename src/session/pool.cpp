// SPDX-License-Identifier: Apache-2.0
#include "session/pool.h"

#include <algorithm>

#include "base/error.h"
#include "base/id.h"
#include "base/log.h"

namespace tb::session {
namespace {

constexpr auto kPauseAfterFailure = 2s;

// Tells ready sandboxes of another configuration apart.
std::string describe(const Kind& kind) {
  const sandbox::Limits& limits = kind.limits;
  std::string text = "ready " + kind.environment;
  for (const std::uint64_t number :
       {limits.memory.count, limits.disk.count, std::uint64_t{limits.cpu_quota},
        std::uint64_t{limits.pids}, std::uint64_t{limits.open_files}}) {
    text += " " + std::to_string(number);
  }
  text += kind.network ? " " + kind.provider + " network" : " " + kind.provider;
  for (const std::string& program : kind.programs.names()) text += " " + program;
  for (const std::string& language : kind.warm) text += " warm:" + language;
  return text;
}

}  // namespace

Pool::Pool(asio::any_io_executor executor, const Providers& providers, PoolSettings settings,
           Metrics* metrics)
    : providers_(providers),
      settings_(std::move(settings)),
      metrics_(metrics),
      wanted_(executor),
      made_(executor),
      line_(executor, settings_.waiting),
      tasks_(executor, [](const std::string&, std::exception_ptr) {}) {
  shelves_.push_back({settings_.kind, settings_.size, describe(settings_.kind), {}});
}

void Pool::open() {
  tasks_.spawn("tend the pool", [this] { return tend(); });
}

awaitable<void> Pool::close() { co_await tasks_.close(); }

// What is not wanted any more leaves its shelf in the background; then the shelf goes too.
void Pool::keep(std::vector<Stock> stocks) {
  for (std::size_t i = 1; i < shelves_.size(); ++i) shelves_[i].size = 0;
  for (Stock& stock : stocks) {
    const auto same = [&](const Shelf& shelf) { return shelf.kind == stock.kind; };
    const auto found = std::find_if(shelves_.begin() + 1, shelves_.end(), same);
    if (found != shelves_.end()) {
      found->size += stock.size;
    } else {
      std::string label = describe(stock.kind);
      shelves_.push_back({std::move(stock.kind), stock.size, std::move(label), {}});
    }
  }
  const auto empty = [this](const Shelf& shelf) {
    return &shelf != &shelves_.front() && shelf.size == 0 && shelf.ready.empty();
  };
  std::erase_if(shelves_, empty);
  wanted_.notify_all();
}

sandbox::SandboxSpec Pool::spec_for(const Kind& kind) {
  sandbox::SandboxSpec spec;
  spec.id = make_uuid();
  spec.environment = kind.environment;
  spec.limits = kind.limits;
  spec.programs = kind.programs.names();
  spec.network = kind.network;
  spec.mounts = kind.mounts;
  return spec;
}

bool Pool::would_make(const std::string& label) const {
  const auto same = [&](const Shelf& shelf) { return shelf.label == label; };
  return std::any_of(shelves_.begin(), shelves_.end(), same);
}

std::size_t Pool::ready() const {
  std::size_t count = 0;
  for (const Shelf& shelf : shelves_) count += shelf.ready.size();
  return count;
}

std::size_t Pool::ready(const Kind& kind) const {
  std::size_t count = 0;
  for (const Shelf& shelf : shelves_) count += shelf.kind == kind ? shelf.ready.size() : 0;
  return count;
}

awaitable<std::shared_ptr<sandbox::Sandbox>> Pool::make(const Kind& kind, std::string label) {
  sandbox::SandboxSpec spec = spec_for(kind);
  spec.label = std::move(label);
  const auto began = std::chrono::steady_clock::now();
  std::shared_ptr<sandbox::Sandbox> made;
  try {
    made = co_await providers_.get(kind.provider).create(std::move(spec));
  } catch (...) {
    if (metrics_) metrics_->sandbox_creations_failed.add();
    throw;
  }
  if (metrics_) metrics_->sandbox_create.observe(std::chrono::steady_clock::now() - began);
  co_return made;
}

void Pool::gone() {
  --used_;
  serve_line();
  wanted_.notify_all();
}

// Whoever waits goes before the pool's own wish for ready ones.
void Pool::serve_line() {
  while (used_ + making_ < settings_.capacity && line_.grant()) ++used_;
}

void Pool::count_wait(Waited result) {
  if (metrics_) metrics_->creation_waits[result].add();
}

// Returns when a place is reserved.
awaitable<void> Pool::wait_for_place(std::shared_ptr<Patience> patience) {
  const auto ticket = line_.join(patience->tenant());
  if (!ticket) {
    count_wait(Waited::refused);
    throw Error{Code::exhausted, "Pool at max capacity, and too many wait for it: try again later"};
  }
  struct Leaving {
    Pool& pool;
    const std::shared_ptr<WaitingLine::Ticket>& ticket;
    bool stays = false;
    ~Leaving() {
      if (stays) return;
      pool.line_.leave(ticket);
      if (ticket->granted) pool.gone();
    }
  } leaving{*this, ticket};
  patience->on_give_up([ticket] { ticket->woken.notify_all(); });
  const auto told = [&] { return ticket->granted || ticket->refused || patience->over(); };
  co_await ticket->woken.until(told, patience->limit());
  patience->on_give_up(nullptr);
  if (patience->over()) {
    count_wait(Waited::left);
    throw GaveUp{};
  }
  leaving.stays = ticket->granted;
  count_wait(ticket->granted   ? Waited::served
             : ticket->refused ? Waited::refused
                               : Waited::timeout);
  if (ticket->granted) co_return;
  throw Error{Code::exhausted, "Pool at max capacity, and none came free: try again later"};
}

void Pool::reserve() {
  if (used_ + making_ >= settings_.capacity) {
    if (metrics_) metrics_->pool_exhausted.add();
    throw Error{Code::exhausted, "Pool at max capacity, try again later"};
  }
  ++used_;
}

std::shared_ptr<sandbox::Sandbox> Pool::take_ready(const Kind& kind) {
  for (Shelf& shelf : shelves_) {
    if (shelf.kind != kind) continue;
    while (!shelf.ready.empty()) {
      std::shared_ptr<sandbox::Sandbox> sandbox = std::move(shelf.ready.front());
      shelf.ready.pop_front();
      wanted_.notify_all();
      if (!sandbox->alive()) continue;
      ++used_;
      if (metrics_) metrics_->pool_hits.add();
      return sandbox;
    }
  }
  return nullptr;
}

awaitable<std::shared_ptr<sandbox::Sandbox>> Pool::take(Kind kind,
                                                        std::shared_ptr<Patience> patience) {
  const auto now = Clock::now();
  last_taken_ = now;
  if (now >= grow_at_) grow_at_ = now + settings_.refill_delay;
  while (line_.size() == 0) {
    if (std::shared_ptr<sandbox::Sandbox> sandbox = take_ready(kind)) co_return sandbox;
    // The last place is being filled: that one is for us.
    if (making_ == 0 || used_ + making_ < settings_.capacity) break;
    co_await made_.wait();
  }
  const bool full = used_ + making_ >= settings_.capacity;
  if (full && patience && patience->limit().count() > 0) {
    co_await wait_for_place(std::move(patience));
  } else {
    reserve();  // at once: others must not count on the same place
  }
  co_return co_await make_reserved(std::move(kind));
}

awaitable<void> Pool::give_way() {
  if (total() <= settings_.capacity) co_return;
  // The settings' own first: of the others somebody wants to have so many.
  for (Shelf& shelf : shelves_) {
    if (shelf.ready.empty()) continue;
    co_await remove_ready(shelf);
    co_return;
  }
}

awaitable<std::shared_ptr<sandbox::Sandbox>> Pool::make_reserved(Kind kind) {
  if (std::shared_ptr<sandbox::Sandbox> sandbox = take_ready(kind)) {
    --used_;  // the place was counted already
    co_return sandbox;
  }
  if (metrics_) metrics_->pool_misses.add();
  try {
    co_await give_way();
    co_return co_await make(kind, {});
  } catch (...) {
    gone();
    throw;
  }
}

bool Pool::drop(const std::string& id) {
  const auto same = [&](const auto& sandbox) { return sandbox->id() == id; };
  for (Shelf& shelf : shelves_) {
    if (std::erase_if(shelf.ready, same) == 0) continue;
    wanted_.notify_all();
    return true;
  }
  return false;
}

void Pool::put_on_shelf(const std::string& label, std::shared_ptr<sandbox::Sandbox> sandbox) {
  Shelf* place = nullptr;
  for (Shelf& shelf : shelves_) {
    if (shelf.label != label) continue;
    const bool room = shelf.ready.size() < shelf.size;
    if (!place || room) place = &shelf;
    if (room) break;
  }
  if (!place) place = &shelves_.front();
  place->ready.push_back(std::move(sandbox));
}

void Pool::add_ready(std::shared_ptr<sandbox::Sandbox> sandbox) {
  const std::string label = sandbox->label();
  sandbox->expect_command();
  put_on_shelf(label, std::move(sandbox));
}

bool Pool::unused() const {
  return settings_.idle.count() > 0 && Clock::now() - last_taken_ > settings_.idle;
}

std::size_t Pool::wanted_now(const Shelf& shelf) const {
  if (&shelf != &shelves_.front()) return shelf.size;
  const bool few = unused() || Clock::now() < grow_at_;
  return few ? std::min(settings_.minimum, settings_.size) : settings_.size;
}

Pool::Shelf* Pool::lacking() {
  if (total() >= settings_.capacity) return nullptr;
  const auto now = Clock::now();
  for (Shelf& shelf : shelves_) {
    if (shelf.ready.size() < wanted_now(shelf) && now >= shelf.again) return &shelf;
  }
  return nullptr;
}

Pool::Shelf* Pool::exceeding() {
  Shelf& own = shelves_.front();
  if (!own.ready.empty() && unused() && own.ready.size() > wanted_now(own)) return &own;
  for (Shelf& shelf : shelves_) {
    const bool too_many = &shelf != &own && shelf.ready.size() > shelf.size;
    if (!shelf.ready.empty() && (too_many || total() > settings_.capacity)) return &shelf;
  }
  return nullptr;
}

Milliseconds Pool::until_change() const {
  Milliseconds wait = settings_.sweep;
  const auto no_later_than = [&](Clock::time_point time) {
    const auto left = std::chrono::ceil<Milliseconds>(time - Clock::now());
    if (left.count() > 0) wait = std::min(wait, left);
  };
  no_later_than(grow_at_);
  for (const Shelf& shelf : shelves_) no_later_than(shelf.again);
  return wait;
}

awaitable<void> Pool::tend() {
  for (;;) {
    if (const Shelf* shelf = lacking()) {
      co_await make_ready(shelf->kind, shelf->label);
    } else if (Shelf* full = exceeding()) {
      co_await remove_ready(*full);
    } else {
      co_await wanted_.until([this] { return lacking() || exceeding(); }, until_change());
    }
  }
}

// The shelves may be others by the time that it is made.
awaitable<void> Pool::make_ready(Kind kind, std::string label) {
  ++making_;
  try {
    std::string told = settings_.labelled ? label : std::string{};
    std::shared_ptr<sandbox::Sandbox> sandbox = co_await make(kind, std::move(told));
    co_await warm_up(sandbox, kind);
    sandbox->expect_command();
    if (would_make(label)) {
      put_on_shelf(label, std::move(sandbox));
    } else {
      const std::string id = sandbox->id();
      co_await providers_.get(kind.provider).destroy(id);
    }
  } catch (const Error& error) {
    log(LogLevel::warning, "pool_refill_failed",
        {{"provider", kind.provider}, {"error", error.what()}});
    // A kind that can't be made must not keep the others from being made.
    for (Shelf& shelf : shelves_) {
      if (shelf.kind == kind) shelf.again = Clock::now() + kPauseAfterFailure;
    }
  }
  --making_;
  made_.notify_all();
  serve_line();
}

// Without them it is as good, but slower at first.
awaitable<void> Pool::warm_up(std::shared_ptr<sandbox::Sandbox> sandbox, const Kind& kind) {
  for (const std::string& language : kind.warm) {
    if (!settings_.warm) co_return;
    try {
      co_await settings_.warm(sandbox, language);
    } catch (const Error& error) {
      log(LogLevel::warning, "interpreter_not_started",
          {{"language", language}, {"error", error.what()}});
    }
  }
}

awaitable<void> Pool::remove_ready(Shelf& shelf) {
  const std::string id = shelf.ready.back()->id();
  sandbox::Provider* provider = providers_.find(shelf.kind.provider);
  shelf.ready.pop_back();
  if (provider) co_await provider->destroy(id);
}

}  // namespace tb::session
