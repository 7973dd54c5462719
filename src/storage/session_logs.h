// SPDX-License-Identifier: Apache-2.0
// What stays of a session that was made of an environment, after its end too: who it was, what
// happened to it, and what its agent remembered.
//
//   <dir>/session_<id>/session.json    facts: when it began and ended, how, of what
//   <dir>/session_<id>/log.jsonl       its events, a line each; log.1.jsonl: those before
//   <dir>/session_<id>/agent/…         state.json, memory.json and plan.md of /sandbox/agent
//
// Written by a thread of its own, in order; a crash loses what it had not come to yet.
#pragma once

#include <atomic>
#include <boost/json.hpp>
#include <chrono>
#include <set>
#include <string>
#include <string_view>

#include "base/async.h"
#include "base/units.h"

namespace tb::storage {

struct LogLimits {
  Bytes per_session = 1_MiB;  // of events
  std::size_t sessions = 10'000;
  std::chrono::hours age{30 * 24};  // since the last event
};

class SessionLogs {
 public:
  SessionLogs(std::string dir, LogLimits limits);
  ~SessionLogs();  // writes what waits

  // One that begins, with what is known of it; or one of an earlier server.
  void begin(const std::string& session, boost::json::object facts);
  void resume(const std::string& session) { followed_.insert(session); }
  bool follows(const std::string& session) const { return followed_.contains(session); }
  // Dropped when the disk is too slow: see dropped().
  void write(const std::string& session, boost::json::object event);
  void keep_agent_file(const std::string& session, std::string name, std::string bytes);
  void end(const std::string& session, boost::json::object facts);

  // The last `most` bytes of the events, whole lines; empty: there are none, or they are another
  // tenant's.
  awaitable<std::string> read(std::string session, std::string tenant, std::size_t most);
  // Sessions that are too old or too many go; those that are followed stay.
  awaitable<std::size_t> sweep();
  std::uint64_t dropped() const { return dropped_; }

 private:
  std::string path_of(const std::string& session) const { return dir_ + "/session_" + session; }
  template <class Work>
  void later(Work work);

  const std::string dir_;
  const LogLimits limits_;
  std::set<std::string> followed_;
  std::uint64_t dropped_ = 0;
  std::atomic<std::size_t> waiting_ = 0;
  asio::thread_pool writer_{1};
};

}  // namespace tb::storage
