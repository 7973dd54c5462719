// SPDX-License-Identifier: Apache-2.0
// One shell that is started ahead is enough for many commands: each gets a copy of it, in a cgroup
// and with a filter of its own (guest/waiter/). The original runs nothing, and nobody may write to
// it: without the filter it can do what commands can't. Until it has closed itself up, it is alone.
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "guest/commands.h"
#include "guest/waiter/wire.h"
#include "os/fdpass.h"
#include "os/landlock.h"

namespace tb::guest {
namespace {

constexpr unsigned kMostUncopied = 2;  // then this bash, or this kernel, makes none

// Not the other way round: any other variable may make bash, the C library or the loader read
// what a command has written.
constexpr std::string_view kHarmless[] = {"PATH", "HOME", "USER", "LOGNAME", "SHELL"};
constexpr std::string_view kNames[] = {"LANG", "TERM"};  // of files, below a place of their own

bool is_plain(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '+' || c == '.';
  });
}

template <std::size_t N>
bool is_one_of(std::string_view name, const std::string_view (&names)[N]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool harmless(const std::vector<std::string>& env) {
  return std::all_of(env.begin(), env.end(), [](const std::string& entry) {
    const std::size_t equals = entry.find('=');
    if (equals == entry.npos) return false;
    const std::string_view name{entry.data(), equals};
    const std::string_view value{entry.data() + equals + 1, entry.size() - equals - 1};
    return is_one_of(name, kHarmless) || (is_one_of(name, kNames) && is_plain(value));
  });
}

// Whether nobody but root can change what is there.
bool is_root_s(const std::string& path, std::uint32_t tenant) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && info.st_uid != tenant &&
         (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Where PATH leads to, links followed.
std::string first_bash(const std::vector<std::string>& env) {
  std::string_view rest;
  for (const std::string& entry : env) {
    if (entry.starts_with("PATH=")) rest = std::string_view{entry}.substr(5);
  }
  while (!rest.empty()) {
    const std::string_view dir = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(dir.size() + 1, rest.size()));
    const std::string file = std::string{dir} + "/bash";
    if (::access(file.c_str(), X_OK) != 0) continue;
    char real[PATH_MAX];
    return file.starts_with('/') && ::realpath(file.c_str(), real) ? real : "";
  }
  return {};
}

bool is_below(std::string_view path, std::string_view dir) {
  return path.starts_with(dir) &&
         (dir.ends_with('/') || path.size() == dir.size() || path[dir.size()] == '/');
}

}  // namespace

void Commands::refill_with_copy() {
  if (original_ && !is_like(original_->like, *next_)) drop_original();
  const bool possible = cgroups_.can_be_given_away() && uncopied_ < kMostUncopied &&
                        config_.command_filter.size() <= waiter::kMaxFilter;
  const bool alone = possible && harmless(next_->env) && !cgroups_.any_populated();
  if (!original_ && alone) start_original();
  if (original_) make_copy(next_->ahead_ms, true);
}

// Beside PID 1, in no command's cgroup.
void Commands::start_original() {
  const std::string bash = trusted_bash();
  int ends[2];
  if (bash.empty() || ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  auto original = std::make_unique<Original>();
  original->socket = ends[0];
  original->pid = launch_waiter(ends[1], {.original = bash.c_str()}).pid;
  original->like.cwd = next_->cwd;
  original->like.env = next_->env;
  ::close(ends[1]);
  if (original->pid > 0) original_ = std::move(original);
}

// The one that a command would have, if no command can have put it there: it runs without the
// commands' filter, and so would whatever stands in its place. Landlock keeps them from all that
// bash reads when it starts.
std::string Commands::trusted_bash() const {
  const std::string found = first_bash(next_->env);
  if (found.empty() || os::landlock::abi() == 0) return {};
  for (const std::string& writable : config_.write_paths) {
    if (is_below(found, writable)) return {};
  }
  for (std::size_t end = found.size(); end != 0; end = found.rfind('/', end - 1)) {
    if (!is_root_s(found.substr(0, end), config_.uid)) return {};
  }
  return found;
}

bool Commands::original_is_closed() {
  waiter::Word said{};
  Original& original = *original_;
  if (!original.closed) {
    original.closed = ::recv(original.socket, &said, sizeof said, MSG_DONTWAIT) == sizeof said;
  }
  return original.closed;
}

bool Commands::original_lives() const {
  siginfo_t info{};
  if (!original_) return false;
  const int result =
      ::waitid(P_PID, static_cast<id_t>(original_->pid), &info, WEXITED | WNOHANG | WNOWAIT);
  return result == 0 && info.si_pid == 0;
}

// Asks for it: what it says, or the end of its socket, tells whether there is one.
void Commands::make_copy(std::uint32_t ahead_ms, bool ahead) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  auto shell = std::make_unique<Command>();
  shell->offer = ends[0];
  shell->copied = true;
  shell->cgroup = cgroups_.take();
  const std::string& filter = config_.command_filter;
  const waiter::Head head{ahead ? waiter::Kind::copy_ahead : waiter::Kind::copy,
                          static_cast<std::uint32_t>(filter.size())};
  std::string message(reinterpret_cast<const char*>(&head), sizeof head);
  message += filter;
  const int passed[] = {ends[1], shell->cgroup >= 0 ? cgroups_.dir_fd(shell->cgroup) : -1};
  const bool asked =
      shell->cgroup >= 0 && os::send_packet(original_->socket, message, passed, 2) == 1;
  ::close(ends[1]);
  if (!asked) {
    cgroups_.give(shell->cgroup);
    return drop_original();
  }
  original_->like.ahead_ms = ahead_ms;
  wait_with(std::move(shell), original_->like);
  original_->until_us = waiting_->began_us + ahead_ms * 1000ull;
}

// A copy may have ended before we heard who it is.
void Commands::learn_pids() {
  if (waiting_ && waiting_->copied && waiting_->pid < 0) hear(*waiting_);
  for (const auto& command : commands_) {
    if (command->copied && command->pid < 0 && command->offer >= 0) hear(*command);
  }
}

void Commands::original_ended() {
  const bool waited = original_is_closed();
  forget_original();
  if (!waited) never_waited(false);
}

void Commands::drop_original() {
  if (!original_) return;
  ::kill(original_->pid, SIGKILL);
  forget_original();
}

// A copy that it was asked for may never come.
void Commands::forget_original() {
  original_.reset();
  if (!waiting_ || !waiting_->copied) return;
  hear(*waiting_);
  if (!waiting_->waited) drop_waiting();
}

// Before anything else is started: it could write to one that is just starting.
void Commands::keep_originals_alone() {
  if (original_ && !original_is_closed()) drop_original();
}

// Returns when it has waited for long enough.
std::uint64_t Commands::tend_original(std::uint64_t now) {
  if (now < original_->until_us) return original_->until_us;
  drop_original();
  return 0;
}

}  // namespace tb::guest
