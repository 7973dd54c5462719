// SPDX-License-Identifier: Apache-2.0
// What happens to sessions: each function writes one line of log and moves the metrics, so that
// whoever sees something happen says it in one line.
//
//   [SANDBOX] event=… user=… thread=… session=… command=… exit_code=… duration_ms=… …
//
// The keys are always in this order; what is not known is left out, and what an event has beside
// them (limit, reason, error, bytes, request_id) comes last.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/units.h"
#include "sandbox/sandbox.h"
#include "session/metrics.h"

namespace tb::storage {
class SessionLogs;
}

namespace tb::session {

// Whom an event is about; the log shows 8, 12 and 12 characters of the first three.
struct Who {
  std::string_view user = {};
  std::string_view thread = {};
  std::string_view session = {};
  std::string_view request = {};  // its id, as the request has it
  std::string_view tenant = {};
};

// What is told to listeners (session/listener.h).
enum class Happening {
  session_created,
  session_expired,
  session_closed,
  command_finished,
  command_failed,
  command_refused,
  limit_exceeded,
  artifact_kept,
};
class Listener;

// A process, as events tell of it.
struct Ran {
  std::uint32_t process = 0;  // 0: none
  std::chrono::system_clock::time_point started = {};
};

// While it lives, one more command runs.
class Running {
 public:
  explicit Running(Gauge& gauge) : gauge_(gauge) { gauge_.add(1); }
  ~Running() { gauge_.add(-1); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  Gauge& gauge_;
};

CommandOutcome outcome_of(const sandbox::Exit& exit);

class Events {
 public:
  // Without `log_commands` the text of commands stays out of the log.
  explicit Events(Metrics& metrics, bool log_commands = true)
      : metrics_(metrics), log_commands_(log_commands) {}

  Metrics& metrics() { return metrics_; }
  // Also there, for sessions that it follows. It outlives this.
  void keep_in(storage::SessionLogs& logs) { logs_ = &logs; }
  // Also to this one, which outlives this.
  void tell(Listener& listener) { listeners_.push_back(&listener); }
  // A request is about this session, whatever else happens.
  void about(const Who& who) const;

  void session_created(const Who& who, Milliseconds took);
  void session_creation_failed(const Who& who, std::string_view error);
  void session_reused(const Who& who);
  void session_expired(const Who& who, Milliseconds age);
  void session_cleaned_up(const Who& who, Milliseconds age);
  void session_cleanup_failed(const Who& who, std::string_view error);
  void sandbox_lost(const Who& who);
  void session_revived(const Who& who, Milliseconds took);
  // Its sandbox was put away, and made again.
  void session_put_to_sleep(const Who& who);
  void session_kept_awake(const Who& who, std::string_view error);
  void session_woken(const Who& who, Milliseconds took);
  void session_revival_failed(const Who& who, std::string_view error);
  // Not `alive`: only its files are there.
  void session_adopted(const Who& who, bool alive);
  // What happened without us, or so shortly before the end of an earlier server that nobody may
  // have been told: listeners hear of it, and it is neither logged nor counted.
  void session_found(const Who& who, std::chrono::system_clock::time_point created);
  void command_found(const sandbox::Process& process, const Who& who);
  void session_adoption_failed(const Who& who, std::string_view error);

  // It runs; when it ends, whoever waits for that or not, command_ended. `kept` is let go then.
  void command_started(sandbox::Process& process, const Who& who, std::string command,
                       std::shared_ptr<void> kept = nullptr);
  // command_executed, or command_failed when its exit code is not 0; resource_limit_exceeded for
  // each limit that ended it.
  void command_ended(const Who& who, std::string_view command, const sandbox::Exit& exit,
                     const Ran& ran = {});
  // command_failed as well, but it never ran.
  void command_not_started(const Who& who, std::string_view command, std::string_view error);
  void validation_failed(const Who& who, std::string_view command, Refused reason,
                         std::string_view error);

  void file_uploaded(const Who& who, Bytes size, Milliseconds took);
  void file_upload_failed(const Who& who, std::string_view error);
  void file_downloaded(const Who& who, Bytes size, Milliseconds took);
  void file_download_failed(const Who& who, std::string_view error);
  // Not logged: clients list again and again.
  void files_listed();
  void file_list_failed(const Who& who, std::string_view error);

  void artifact_kept(const Who& who, std::string_view id, std::string_view name, Bytes size);

  void resource_limit_exceeded(const Who& who, Limit limit, const Ran& ran = {});

 private:
  struct When {
    std::chrono::system_clock::time_point at = std::chrono::system_clock::now();
    bool found = false;
  };
  struct Line {
    std::optional<std::string_view> command = std::nullopt;
    std::optional<int> exit_code = std::nullopt;
    std::optional<Milliseconds> duration = std::nullopt;
    std::vector<LogField> more = {};
  };
  void write(LogLevel level, std::string_view event, const Who& who, Line line) const;
  void write_failure(std::string_view event, const Who& who, std::string_view error) const;
  void count_limits(const Who& who, const sandbox::Exit& exit, const Ran& ran);

  // Of listeners: listener.cpp. `fill` adds to the data when somebody wants it.
  void asked_for(const Who& who, std::string_view command) const;
  template <class Fill>
  void announce(Happening what, const Who& who, const std::string& key, const When& when,
                Fill fill) const;
  void announce_session(Happening what, const Who& who, Milliseconds time, const When& when) const;
  void announce_end(const Who& who, std::string_view command, const sandbox::Exit& exit,
                    const Ran& ran, const When& when) const;
  void announce_failure(Happening what, const Who& who, std::string_view command,
                        std::string_view error, std::string_view reason) const;
  void announce_limit(const Who& who, Limit limit, const Ran& ran, const When& when) const;
  void announce_artifact(const Who& who, std::string_view id, std::string_view name,
                         Bytes size) const;

  Metrics& metrics_;
  bool log_commands_;
  storage::SessionLogs* logs_ = nullptr;
  std::vector<Listener*> listeners_;
};

}  // namespace tb::session
