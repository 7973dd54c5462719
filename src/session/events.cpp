// SPDX-License-Identifier: Apache-2.0
#include "session/events.h"

#include <algorithm>

#include "base/utf8.h"
#include "storage/session_logs.h"

namespace tb::session {
namespace {

// As earlier generations have them: enough to find somebody, too little to be somebody.
constexpr std::size_t kUserCharacters = 8;
constexpr std::size_t kIdCharacters = 12;
constexpr std::size_t kCommandCharacters = 100;
constexpr std::size_t kErrorCharacters = 300;

std::string brief(std::string_view text, std::size_t characters) {
  return std::string{first_characters(text, characters)};
}

std::string name_of(Limit limit) {
  return std::string{kLimitNames[static_cast<std::size_t>(limit)]};
}

LogField error_field(std::string_view error) { return {"error", brief(error, kErrorCharacters)}; }

LogField bytes_field(Bytes size) { return {"bytes", std::to_string(size.count), true}; }

}  // namespace

CommandOutcome outcome_of(const sandbox::Exit& exit) {
  switch (exit.cause) {
    case sandbox::Cause::exited:
      return exit.code == 0 ? CommandOutcome::exited0 : CommandOutcome::exited_nonzero;
    case sandbox::Cause::signal: return CommandOutcome::signal;
    case sandbox::Cause::timeout: return CommandOutcome::timeout;
    case sandbox::Cause::oom: return CommandOutcome::oom;
    case sandbox::Cause::killed: return CommandOutcome::killed;
    case sandbox::Cause::policy: return CommandOutcome::policy;
    case sandbox::Cause::lost: return CommandOutcome::lost;
  }
  return CommandOutcome::lost;
}

void Events::write(LogLevel level, std::string_view event, const Who& who, Line line) const {
  std::vector<LogField> fields;
  fields.reserve(8 + line.more.size());
  const auto add = [&](std::string_view key, std::string_view value, std::size_t characters) {
    if (!value.empty()) fields.push_back({key, brief(value, characters)});
  };
  add("user", who.user, kUserCharacters);
  add("thread", who.thread, kIdCharacters);
  add("session", who.session, kIdCharacters);
  if (log_commands_) add("command", line.command.value_or(""), kCommandCharacters);
  if (line.exit_code) fields.push_back({"exit_code", std::to_string(*line.exit_code), true});
  if (line.duration) {
    fields.push_back({"duration_ms", std::to_string(line.duration->count()), true});
  }
  for (LogField& field : line.more) fields.push_back(std::move(field));
  add("request_id", who.request, who.request.size());
  log(level, event, fields);
  if (!who.request.empty()) about(who);
  const std::string session{who.session};
  if (!logs_ || !logs_->follows(session)) return;
  boost::json::object kept{{"event", event}};
  for (const LogField& field : fields) kept[field.key] = to_utf8(std::string{field.value});
  logs_->write(session, std::move(kept));
}

void Events::write_failure(std::string_view event, const Who& who, std::string_view error) const {
  write(LogLevel::warning, event, who, {.more = {error_field(error)}});
}

void Events::session_created(const Who& who, Milliseconds took) {
  metrics_.sessions_created.add();
  write(LogLevel::info, "session_created", who, {.duration = took});
  announce_session(Happening::session_created, who, took, {});
}

void Events::session_creation_failed(const Who& who, std::string_view error) {
  metrics_.session_creations_failed.add();
  write_failure("session_creation_failed", who, error);
}

void Events::session_reused(const Who& who) {
  metrics_.sessions_reused.add();
  write(LogLevel::info, "session_reused", who, {});
}

void Events::session_expired(const Who& who, Milliseconds age) {
  metrics_.sessions_expired.add();
  metrics_.session_lifetime.observe(age);
  write(LogLevel::info, "session_expired", who, {.duration = age});
  announce_session(Happening::session_expired, who, age, {});
}

void Events::session_cleaned_up(const Who& who, Milliseconds age) {
  metrics_.sessions_cleaned_up.add();
  metrics_.session_lifetime.observe(age);
  write(LogLevel::info, "session_cleaned_up", who, {.duration = age});
  announce_session(Happening::session_closed, who, age, {});
}

void Events::session_cleanup_failed(const Who& who, std::string_view error) {
  write_failure("session_cleanup_failed", who, error);
}

void Events::sandbox_lost(const Who& who) {
  metrics_.sessions_lost.add();
  write(LogLevel::warning, "sandbox_lost", who, {});
}

void Events::session_revived(const Who& who, Milliseconds took) {
  metrics_.sessions_revived.add();
  write(LogLevel::info, "session_revived", who, {.duration = took});
}

void Events::session_put_to_sleep(const Who& who) {
  write(LogLevel::debug, "session_put_to_sleep", who, {});
}

void Events::session_kept_awake(const Who& who, std::string_view error) {
  write_failure("session_kept_awake", who, error);
}

void Events::session_woken(const Who& who, Milliseconds took) {
  metrics_.sessions_woken.add();
  write(LogLevel::debug, "session_woken", who, {.duration = took});
}

void Events::session_revival_failed(const Who& who, std::string_view error) {
  write_failure("session_revival_failed", who, error);
}

void Events::session_adopted(const Who& who, bool alive) {
  metrics_.sessions_adopted.add();
  write(LogLevel::info, "session_adopted", who, {.more = {{"alive", alive ? "yes" : "no"}}});
}

void Events::session_adoption_failed(const Who& who, std::string_view error) {
  write_failure("session_adoption_failed", who, error);
}

// What it needs of `who` is copied: the session must not be held by a process that it holds.
void Events::command_started(sandbox::Process& process, const Who& who, std::string command,
                             std::shared_ptr<void> kept) {
  asked_for(who, command);
  const Ran ran{process.id(), process.info().started};
  if (process.exit()) return command_ended(who, command, *process.exit(), ran);
  const auto running = std::make_shared<Running>(metrics_.commands_running);
  process.on_exit([this, running, ran, kept = std::move(kept), command = std::move(command),
                   user = std::string{who.user}, thread = std::string{who.thread},
                   session = std::string{who.session}, request = std::string{who.request},
                   tenant = std::string{who.tenant}](const sandbox::Exit& exit) {
    command_ended({user, thread, session, request, tenant}, command, exit, ran);
  });
}

void Events::command_ended(const Who& who, std::string_view command, const sandbox::Exit& exit,
                           const Ran& ran) {
  metrics_.commands[outcome_of(exit)].add();
  metrics_.command_duration.observe(exit.wall);
  Line line{.command = command,
            .exit_code = exit.code,
            .duration = std::chrono::duration_cast<Milliseconds>(exit.wall)};
  if (exit.cause != sandbox::Cause::exited) {
    line.more.push_back({"cause", std::string{sandbox::name_of(exit.cause)}});
  }
  write(LogLevel::info, exit.code == 0 ? "command_executed" : "command_failed", who,
        std::move(line));
  announce_end(who, command, exit, ran, {});
  count_limits(who, exit, ran);
}

void Events::count_limits(const Who& who, const sandbox::Exit& exit, const Ran& ran) {
  if (exit.cause == sandbox::Cause::timeout) {
    resource_limit_exceeded(who, Limit::command_timeout, ran);
  }
  for (const std::string& name : exit.limits_hit) {
    const auto* const found = std::find(kLimitNames.begin(), kLimitNames.end(), name);
    if (found == kLimitNames.end()) continue;
    const auto limit = static_cast<Limit>(found - kLimitNames.begin());
    // Whoever computes is slowed down to the share that is meant: counted, but not news.
    if (limit == Limit::cpu) {
      metrics_.limits_exceeded[limit].add();
    } else {
      resource_limit_exceeded(who, limit, ran);
    }
  }
}

void Events::command_not_started(const Who& who, std::string_view command, std::string_view error) {
  metrics_.commands[CommandOutcome::not_started].add();
  asked_for(who, command);
  write(LogLevel::warning, "command_failed", who,
        {.command = command, .more = {error_field(error)}});
  announce_failure(Happening::command_failed, who, command, error, "not_started");
}

void Events::validation_failed(const Who& who, std::string_view command, Refused reason,
                               std::string_view error) {
  metrics_.validation_failures[reason].add();
  asked_for(who, command);
  Line line{.command = command};
  line.more.push_back({"reason", std::string{kRefusedNames[static_cast<std::size_t>(reason)]}});
  // The sentence may quote the command.
  if (log_commands_) line.more.push_back(error_field(error));
  write(LogLevel::warning, "validation_failed", who, std::move(line));
  announce_failure(Happening::command_refused, who, command, error,
                   kRefusedNames[static_cast<std::size_t>(reason)]);
}

void Events::file_uploaded(const Who& who, Bytes size, Milliseconds took) {
  metrics_.file_operations[FileAction::upload].add();
  metrics_.uploaded.add(size.count);
  write(LogLevel::info, "file_uploaded", who, {.duration = took, .more = {bytes_field(size)}});
}

void Events::file_upload_failed(const Who& who, std::string_view error) {
  metrics_.file_failures[FileAction::upload].add();
  write_failure("file_upload_failed", who, error);
}

void Events::file_downloaded(const Who& who, Bytes size, Milliseconds took) {
  metrics_.file_operations[FileAction::download].add();
  metrics_.downloaded.add(size.count);
  write(LogLevel::info, "file_downloaded", who, {.duration = took, .more = {bytes_field(size)}});
}

void Events::file_download_failed(const Who& who, std::string_view error) {
  metrics_.file_failures[FileAction::download].add();
  write_failure("file_download_failed", who, error);
}

void Events::files_listed() { metrics_.file_operations[FileAction::list].add(); }

void Events::file_list_failed(const Who& who, std::string_view error) {
  metrics_.file_failures[FileAction::list].add();
  write_failure("file_list_failed", who, error);
}

void Events::artifact_kept(const Who& who, std::string_view id, std::string_view name, Bytes size) {
  write(LogLevel::info, "artifact_kept", who,
        {.more = {{"artifact", std::string{id}}, bytes_field(size)}});
  announce_artifact(who, id, name, size);
}

void Events::resource_limit_exceeded(const Who& who, Limit limit, const Ran& ran) {
  metrics_.limits_exceeded[limit].add();
  write(LogLevel::warning, "resource_limit_exceeded", who, {.more = {{"limit", name_of(limit)}}});
  announce_limit(who, limit, ran, {});
}

}  // namespace tb::session
