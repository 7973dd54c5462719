// SPDX-License-Identifier: Apache-2.0
// An operation between the engine's thread and those of Python. The engine's thread never needs the
// GIL: it writes down that something is done, and whoever waits takes the answer himself.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "jobs.h"
#include "os/fd.h"

namespace tb::python {

class Mailbox;

class Pending : public std::enable_shared_from_this<Pending> {
 public:
  Pending(std::shared_ptr<embed::Engine> engine, Job job)
      : engine_(std::move(engine)), job_(std::move(job)) {}

  // To a mailbox, under this number; or to who waits.
  void start(std::shared_ptr<Mailbox> mailbox = nullptr, std::uint64_t token = 0);
  // False: a signal came, or the time is over; any number of threads, no GIL.
  bool sleep(std::optional<Milliseconds> limit);
  // Ends a command, or the wait for something else. Its end is still told.
  void stop();
  // Once it is over. Throws what it threw.
  Ref answer();

 private:
  void finish(std::exception_ptr failure);

  std::shared_ptr<embed::Engine> engine_;
  Job job_;
  std::shared_ptr<embed::Operation> operation_;
  std::exception_ptr failure_;
  std::atomic<std::uint32_t> over_{0};
};

// Where an event loop finds what is done: a descriptor becomes readable.
class Mailbox {
 public:
  Mailbox();
  int descriptor() const { return event_.get(); }
  void expect(std::uint64_t token, std::shared_ptr<Pending> pending);
  void deliver(std::uint64_t token);
  void stop(std::uint64_t token);
  std::vector<std::pair<std::uint64_t, std::shared_ptr<Pending>>> take();

 private:
  os::Fd event_;
  std::mutex lock_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Pending>> expected_;
  std::vector<std::uint64_t> done_;
};

}  // namespace tb::python
