// SPDX-License-Identifier: Apache-2.0
// One thread's box, as the server knows it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "limits/hold.h"
#include "policy/policy.h"
#include "sandbox/sandbox.h"
#include "session/events.h"
#include "session/pool.h"
#include "session/store.h"
#include "storage/volumes.h"

namespace tb::session {

struct SessionSpec {
  std::string thread;         // empty: anonymous, nobody can find it but by its id
  std::string user;           // for logs and limits
  std::string policy;         // empty: the environment's, or the server's default
  Milliseconds idle = 30min;  // 0: the environment's, or the server's
  std::string provider;       // empty: the agent's, the environment's, or the server's default
  std::string environment;    // of the registry; empty: the agent's, or none
  std::string agent;          // of the registry; empty: none
  std::vector<storage::VolumeUse> volumes = {};  // of the user, asked for by name
  std::vector<sandbox::Mount> mounts = {};       // what these and the environment's came to
  std::string tenant = {};                       // whose it is; empty: the default tenant's
  std::string key = {};                          // of who asked for it; kept in its label
};

// What its environment means for a session, beside the sandbox.
struct Surroundings {
  std::vector<std::pair<std::string, std::string>> variables;  // of each command
  std::optional<Milliseconds> command_timeout;
  std::optional<Bytes> disk;
  bool network = false;
};

struct Session {
  std::string id;  // its sandbox's too
  SessionSpec spec;
  policy::Policy policy;  // fixed at its creation
  Kind kind = {};
  Surroundings surroundings = {};
  std::uint64_t claim = 0;  // the number of its thread's claim; 0: there is no directory
  WallTime created = {};
  WallTime last_activity = {};
  // Null: only the files are there, as after a crash.
  std::shared_ptr<sandbox::Sandbox> sandbox = nullptr;
  // It was put away because nobody used it, and is made again when it is needed; what ran in it is
  // still known.
  std::shared_ptr<sandbox::Sandbox> asleep = nullptr;
  bool keeps_place = false;  // of the pool, while it is put away
  unsigned uses = 0;         // requests at work on it right now
  unsigned looks = 0;        // and those that only look
  bool moving = false;       // to another server: nothing is begun in it
  // When the files that it began with were kept, if they were (session/workspaces.h).
  std::optional<WallTime> files_of = {};
  std::shared_ptr<limits::Hold> held = nullptr;  // of the sessions that its owner may have
  std::chrono::steady_clock::time_point renewed = {};
  std::chrono::steady_clock::time_point used_until = {};  // idle time begins then at the earliest
  bool to_be_told = false;  // to the keeper and the store: its last activity
  std::chrono::steady_clock::time_point told = std::chrono::steady_clock::now();
  bool worked_on = false;  // since they were told
  // It was made or found then, or could not be put away.
  std::chrono::steady_clock::time_point kept_awake = std::chrono::steady_clock::now();

  // Its sandbox, or what is known of it; null: nothing.
  const std::shared_ptr<sandbox::Sandbox>& known() const { return sandbox ? sandbox : asleep; }
  // Whom it and what runs in it are counted for.
  limits::Identity owner() const { return {spec.tenant, spec.key, spec.user}; }
  WallTime expires() const { return last_activity + spec.idle; }
  std::string thread_key() const { return session::thread_key(spec.tenant, spec.thread); }
  Who who(std::string_view request = {}) const {
    return {spec.user, spec.thread, id, request, spec.tenant};
  }
  Milliseconds age() const {
    return std::chrono::duration_cast<Milliseconds>(std::chrono::system_clock::now() - created);
  }
};

// While it lives, somebody is at work on the session.
struct Busy {
  explicit Busy(Session& which) : session(which) { ++session.uses; }
  ~Busy() { --session.uses; }
  Busy(const Busy&) = delete;
  Session& session;
};

inline Error expired() { return Error{Code::not_found, "Invalid or expired session"}; }

// A command that the session's policy does not let through.
class PolicyError : public Error {
 public:
  PolicyError(policy::Refusal refusal, std::string command)
      : Error(Code::invalid, refusal.message),
        refusal_(std::move(refusal)),
        command_(std::move(command)) {}
  const policy::Refusal& refusal() const { return refusal_; }
  const std::string& command() const { return command_; }

 private:
  policy::Refusal refusal_;
  std::string command_;
};

}  // namespace tb::session
