// SPDX-License-Identifier: Apache-2.0
// Which of several servers has a thread. A server of a cluster asks before it gives a thread a
// sandbox, and before it uses one (docs/cluster.md).
#pragma once

#include <cstdint>
#include <string>

#include "base/async.h"
#include "base/error.h"

namespace tb::session {

// The thread has its sandbox on another server.
class Elsewhere : public Error {
 public:
  Elsewhere(std::string worker, std::string url, std::string session)
      : Error(Code::conflict, "this thread lives on worker " + worker + " at " + url),
        worker_(std::move(worker)),
        url_(std::move(url)),
        session_(std::move(session)) {}
  const std::string& worker() const { return worker_; }
  const std::string& url() const { return url_; }
  const std::string& session() const { return session_; }

 private:
  std::string worker_;
  std::string url_;
  std::string session_;
};

class Directory {
 public:
  virtual ~Directory() = default;

  // Throws Error{unavailable} when nothing may be begun in our sandboxes: they may soon be
  // another's.
  virtual void check_lease() const = 0;
  // Throws Error{unavailable} when no claim could succeed now.
  virtual void check_open() const = 0;
  // Makes the thread (its thread_key) ours, for this session, in the whole cluster; returns the
  // number of the claim.
  // An anonymous one (no thread) is only made known. Throws Elsewhere, and Error{unavailable} when
  // it is not known to be ours.
  virtual awaitable<std::uint64_t> claim(std::string thread, std::string session) = 0;
  // For a thread that has no session here: throws Elsewhere when another server has it, and
  // Error{unavailable} when nobody can be asked.
  virtual awaitable<void> check_nobody_has(std::string thread) = 0;
  // The session has ended. Does not wait: it is told as soon as that is possible.
  virtual void release(std::string thread, std::string session) = 0;

  // For /health, and for the other servers when they can't reach the directory themselves.
  virtual bool connected() const = 0;
  // The same, as a promise: who is told no may rely on us not to take its threads before a whole
  // lease has passed from now on.
  virtual bool confirm_connected() = 0;
};

}  // namespace tb::session
