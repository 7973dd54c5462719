// SPDX-License-Identifier: Apache-2.0
#include "pending.h"

#include <linux/futex.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

namespace tb::python {
namespace {

// Unlike a condition variable it comes back when a signal was handled, which is when Python wants
// to look at its own handlers.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::optional<Milliseconds> limit) {
  timespec time{};
  if (limit) {
    time.tv_sec = limit->count() / 1000;
    time.tv_nsec = limit->count() % 1000 * 1000000;
  }
  ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, limit ? &time : nullptr, nullptr, 0);
}

}  // namespace

void Pending::start(std::shared_ptr<Mailbox> mailbox, std::uint64_t token) {
  auto self = shared_from_this();
  if (mailbox) mailbox->expect(token, self);
  auto done = [self, mailbox, token](std::exception_ptr failure) {
    self->finish(failure);
    if (mailbox) mailbox->deliver(token);
  };
  embed::Operation::Stop stop;
  if (job_.stopper) stop = [stopper = job_.stopper] { stopper->stop(); };
  operation_ = engine_->submit(job_.work, std::move(done), std::move(stop));
}

void Pending::finish(std::exception_ptr failure) {
  failure_ = failure;
  over_.store(1, std::memory_order_release);
  ::syscall(SYS_futex, &over_, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

bool Pending::sleep(std::optional<Milliseconds> limit) {
  if (over_.load(std::memory_order_acquire) == 0) futex_wait(over_, 0, limit);
  return over_.load(std::memory_order_acquire) != 0;
}

void Pending::stop() { engine_->cancel(operation_); }

Ref Pending::answer() {
  if (failure_) std::rethrow_exception(failure_);
  return job_.answer();
}

Mailbox::Mailbox() : event_(check(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd")) {}

void Mailbox::expect(std::uint64_t token, std::shared_ptr<Pending> pending) {
  const std::lock_guard guard{lock_};
  expected_[token] = std::move(pending);
}

void Mailbox::deliver(std::uint64_t token) {
  const std::lock_guard guard{lock_};
  done_.push_back(token);
  if (done_.size() == 1) ::eventfd_write(event_.get(), 1);
}

void Mailbox::stop(std::uint64_t token) {
  std::shared_ptr<Pending> pending;
  {
    const std::lock_guard guard{lock_};
    const auto found = expected_.find(token);
    if (found != expected_.end()) pending = found->second;
  }
  if (pending) pending->stop();
}

std::vector<std::pair<std::uint64_t, std::shared_ptr<Pending>>> Mailbox::take() {
  const std::lock_guard guard{lock_};
  eventfd_t ignored = 0;
  ::eventfd_read(event_.get(), &ignored);
  std::vector<std::pair<std::uint64_t, std::shared_ptr<Pending>>> result;
  for (const std::uint64_t token : std::exchange(done_, {})) {
    const auto found = expected_.find(token);
    if (found == expected_.end()) continue;
    result.emplace_back(token, std::move(found->second));
    expected_.erase(found);
  }
  return result;
}

}  // namespace tb::python
