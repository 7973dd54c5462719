// SPDX-License-Identifier: Apache-2.0
// Several programs with one state directory: which of them are there, and whose turn it is to make
// the session of a thread. Locks of the kernel, which go with the program that holds them.
#pragma once

#include <string>
#include <unordered_set>

#include "base/async.h"
#include "os/fd.h"

namespace tb::embed {

// A server has a state directory alone; libraries share it.
class StateLock {
 public:
  // Throws Error{conflict} when a server has it.
  explicit StateLock(const std::string& state_dir);
  // Nobody else has it: until share() nobody else gets it.
  bool alone() const { return alone_; }
  void share();
  int descriptor() const { return file_.get(); }

 private:
  os::Fd file_;
  bool alone_ = false;
};

// One creation at a time for each name, over all programs.
class NameLocks {
 public:
  NameLocks(asio::any_io_executor executor, const std::string& state_dir);
  int descriptor() const { return file_.get(); }

  class Held {
   public:
    Held(NameLocks& locks, std::string name) : locks_(&locks), name_(std::move(name)) {}
    Held(Held&& other) noexcept
        : locks_(std::exchange(other.locks_, nullptr)), name_(other.name_) {}
    Held& operator=(Held&&) = delete;
    ~Held() {
      if (locks_) locks_->unlock(name_);
    }

   private:
    NameLocks* locks_;
    std::string name_;
  };
  awaitable<Held> lock(std::string name);

 private:
  void unlock(const std::string& name);
  bool try_lock(const std::string& name, short type) const;

  os::Fd file_;
  Signal changed_;
  std::unordered_set<std::string> held_;  // by us: the kernel does not tell our own apart
};

}  // namespace tb::embed
