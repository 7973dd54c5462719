// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite_store.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <future>

#include "base/error.h"
#include "base/log.h"
#include "base/quiet_thread.h"

namespace tb::store {
namespace {

// Sessions are far fewer; what a caller invents must not fill the memory.
constexpr std::size_t kMaxTouches = 1'000'000;

using Clock = std::chrono::steady_clock;

// What a coroutine of the loop waits for.
struct Waiting {
  explicit Waiting(const asio::any_io_executor& executor) : done(executor) {}
  bool over = false;
  std::exception_ptr failure;
  Signal done;
};

}  // namespace

SqliteStore::SqliteStore(asio::any_io_executor executor, std::string path, Settings settings)
    : executor_(std::move(executor)), path_(std::move(path)), settings_(settings) {
  Opened opened = open_tables(path_, settings_.busy);
  tables_ = std::move(opened.tables);
  recovered_ = std::move(opened.recovered);
  if (!recovered_.empty()) log(LogLevel::warning, "store_recovered", {{"what", recovered_}});
  thread_ = start_without_signals([this] { work(); });
}

SqliteStore::~SqliteStore() {
  {
    const std::lock_guard lock{mutex_};
    closing_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

// ---- On the loop's thread. ----

void SqliteStore::submit(Job job) {
  {
    const std::lock_guard lock{mutex_};
    if (closing_) throw Error{Code::unavailable, "the store is closed"};
    if (jobs_.size() >= settings_.queue) {
      throw Error{Code::unavailable, "the store is busy: the disk is too slow"};
    }
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

// The handler moves to the loop whole, so that nothing of the loop's is destroyed elsewhere.
SqliteStore::Done SqliteStore::reply_to(std::function<void(std::exception_ptr)> on_loop) const {
  return [executor = executor_, on_loop = std::move(on_loop)](std::exception_ptr failure) mutable {
    asio::post(executor, [on_loop = std::move(on_loop), failure] { on_loop(failure); });
  };
}

awaitable<void> SqliteStore::perform(bool reads, Work work, std::string removes) {
  auto waiting = std::make_shared<Waiting>(executor_);
  Job job;
  job.reads = reads;
  job.work = std::move(work);
  job.removes = std::move(removes);
  job.done = reply_to([waiting](std::exception_ptr failure) {
    waiting->over = true;
    waiting->failure = failure;
    waiting->done.notify_all();
  });
  submit(std::move(job));
  while (!waiting->over) co_await waiting->done.wait();
  if (waiting->failure) std::rethrow_exception(waiting->failure);
}

std::vector<StoredSession> SqliteStore::sessions() {
  std::vector<StoredSession> result;
  std::promise<void> done;
  Job job;
  job.reads = true;
  job.work = [&result](Tables& tables) { result = tables.sessions(); };
  job.done = [&done](std::exception_ptr failure) {
    if (failure) {
      done.set_exception(failure);
    } else {
      done.set_value();
    }
  };
  submit(std::move(job));
  done.get_future().get();
  return result;
}

awaitable<void> SqliteStore::put(StoredSession session) {
  {
    const std::lock_guard lock{mutex_};
    touches_.erase(session.id);  // an earlier one must not be written after this
    removals_.erase(session.id);
  }
  Work work = [session = std::move(session)](Tables& tables) { tables.put(session); };
  co_await perform(false, std::move(work));
}

awaitable<void> SqliteStore::remove(std::string id) {
  Work work = [id](Tables& tables) { tables.remove(id); };
  co_await perform(false, std::move(work), std::move(id));
}

awaitable<std::vector<Event>> SqliteStore::events(std::string session, std::size_t limit) {
  auto found = std::make_shared<std::vector<Event>>();
  Work work = [found, session = std::move(session), limit](Tables& tables) {
    *found = tables.events(session, limit);
  };
  co_await perform(true, std::move(work));
  co_return std::move(*found);
}

void SqliteStore::touch(std::string id, WallTime last_activity) {
  std::unique_lock lock{mutex_};
  if (closing_) return;
  if (touches_.size() >= kMaxTouches && !touches_.contains(id)) return;
  touches_[std::move(id)] = last_activity;
  wake_soon(lock);
}

void SqliteStore::record(Event event) {
  std::unique_lock lock{mutex_};
  if (closing_) return;
  events_.push_back(std::move(event));
  if (events_.size() > settings_.queue) {
    events_.pop_front();
    ++dropped_;
  }
  wake_soon(lock);
}

// Unlocks it first: who wakes up wants it.
void SqliteStore::wake_soon(std::unique_lock<std::mutex>& lock) {
  if (soon_) return;
  soon_ = Clock::now() + settings_.linger;
  lock.unlock();
  wake_.notify_one();
}

awaitable<void> SqliteStore::close() {
  auto waiting = std::make_shared<Waiting>(executor_);
  {
    const std::lock_guard lock{mutex_};
    if (closed_) co_return;
    closing_ = true;
    closers_.push_back(reply_to([waiting](std::exception_ptr) {
      waiting->over = true;
      waiting->done.notify_all();
    }));
  }
  wake_.notify_one();
  while (!waiting->over) co_await waiting->done.wait();
}

std::string SqliteStore::problem() const {
  const std::lock_guard lock{mutex_};
  if (dropped_ == 0) return problem_;
  return (problem_.empty() ? "the disk is too slow" : problem_) +
         "; events that were dropped: " + std::to_string(dropped_);
}

std::string SqliteStore::recovered() const {
  const std::lock_guard lock{mutex_};
  return recovered_;
}

// ---- On the thread of its own. ----

void SqliteStore::work() {
  for (bool last = false; !last;) {
    Batch batch = next_batch();
    last = batch.last;
    write(batch);
  }
  tables_.reset();  // moves the log into the file
  std::vector<Done> closers;
  {
    const std::lock_guard lock{mutex_};
    closed_ = true;
    closers.swap(closers_);
  }
  for (Done& done : closers) done(nullptr);
}

SqliteStore::Batch SqliteStore::next_batch() {
  std::unique_lock lock{mutex_};
  while (!closing_ && jobs_.empty() && !(soon_ && *soon_ <= Clock::now())) {
    if (soon_) {
      wake_.wait_until(lock, *soon_);
    } else {
      wake_.wait(lock);
    }
  }
  Batch batch;
  batch.removals.swap(removals_);
  batch.jobs.swap(jobs_);
  batch.touches.swap(touches_);
  batch.events.swap(events_);
  batch.last = closing_;
  soon_.reset();
  return batch;
}

bool SqliteStore::writes(const Batch& batch) {
  if (!batch.removals.empty() || !batch.touches.empty() || !batch.events.empty()) return true;
  return std::any_of(batch.jobs.begin(), batch.jobs.end(),
                     [](const Job& job) { return !job.reads; });
}

void SqliteStore::write(Batch& batch) {
  std::string trouble;
  if (writes(batch)) {
    trouble = attempt([&] { commit(batch); });
    if (!trouble.empty()) keep(batch);
    tell(trouble);
  }
  for (Job& job : batch.jobs) {
    if (job.reads) {
      const std::string unread = attempt([&] { job.work(*tables_); });
      if (!unread.empty()) {
        job.failure = std::make_exception_ptr(
            Error{Code::unavailable, "the disk did not give what was stored: " + unread});
      }
    } else if (!trouble.empty()) {
      job.failure = std::make_exception_ptr(
          Error{Code::unavailable, "the disk did not take what was to be stored: " + trouble});
    }
  }
  // Last: who is answered may ask for the problem.
  for (Job& job : batch.jobs) job.done(job.failure);
}

void SqliteStore::commit(Batch& batch) {
  tables_->begin();
  for (const std::string& id : batch.removals) tables_->remove(id);
  for (Job& job : batch.jobs) {
    job.failure = nullptr;
    if (job.reads) continue;
    try {
      job.work(*tables_);
    } catch (const SqliteError&) {
      throw;
    } catch (const Error&) {
      job.failure = std::current_exception();  // its own mistake; the others go on
    }
  }
  for (const auto& [id, time] : batch.touches) tables_->touch(id, time);
  for (const Event& event : batch.events) tables_->record(event);
  if (!batch.events.empty()) tables_->trim(settings_.max_events);
  tables_->commit();
}

// Returns what went wrong. A file that turns out to be damaged is replaced, and it is tried again.
std::string SqliteStore::attempt(const std::function<void()>& action) {
  try {
    if (!tables_) recover({});
    try {
      action();
    } catch (const SqliteError& error) {
      if (!error.damaged()) throw;
      recover(error.what());
      action();
    }
    return {};
  } catch (const std::exception& error) {
    if (tables_) tables_->rollback();
    return error.what();
  }
}

void SqliteStore::recover(std::string damage) {
  tables_.reset();
  Opened opened = open_tables(path_, settings_.busy, std::move(damage));
  tables_ = std::move(opened.tables);
  if (opened.recovered.empty()) return;
  log(LogLevel::error, "store_recovered", {{"what", opened.recovered}});
  const std::lock_guard lock{mutex_};
  recovered_ = std::move(opened.recovered);
}

// Removals, touches and events are tried again; what came meanwhile is newer.
void SqliteStore::keep(Batch& batch) {
  const std::lock_guard lock{mutex_};
  if (batch.last) return;
  removals_.merge(batch.removals);
  for (const Job& job : batch.jobs) {
    if (!job.removes.empty()) removals_.insert(job.removes);
  }
  touches_.merge(batch.touches);
  events_.insert(events_.begin(), std::make_move_iterator(batch.events.begin()),
                 std::make_move_iterator(batch.events.end()));
  while (events_.size() > settings_.queue) {
    events_.pop_front();
    ++dropped_;
  }
  if (!removals_.empty() || !touches_.empty() || !events_.empty())
    soon_ = Clock::now() + settings_.retry;
}

void SqliteStore::tell(std::string trouble) {
  std::string before;
  std::size_t dropped = 0;
  {
    const std::lock_guard lock{mutex_};
    before = std::exchange(problem_, trouble);
    if (trouble.empty()) dropped = std::exchange(dropped_, 0);
  }
  if (before.empty() && !trouble.empty()) {
    log(LogLevel::error, "store_failing", {{"why", trouble}});
  } else if (trouble.empty() && (!before.empty() || dropped != 0)) {
    log(LogLevel::warning, "store_healed", {{"dropped_events", std::to_string(dropped)}});
  }
}

}  // namespace tb::store
