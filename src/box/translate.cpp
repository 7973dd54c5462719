// SPDX-License-Identifier: Apache-2.0
// The guest's words about the end of a command, in ours.
#include <signal.h>

#include <cstring>

#include "box/process.h"

namespace tb::box {
namespace {

constexpr int kTimeoutCode = 124;  // as timeout(1) has it

sandbox::Cause translate(guest::Cause cause) {
  switch (cause) {
    case guest::Cause::exited: return sandbox::Cause::exited;
    case guest::Cause::signal: return sandbox::Cause::signal;
    case guest::Cause::timeout: return sandbox::Cause::timeout;
    case guest::Cause::oom: return sandbox::Cause::oom;
    case guest::Cause::killed: return sandbox::Cause::killed;
  }
  return sandbox::Cause::lost;
}

}  // namespace

Error explain(const guest::Failure& failure) {
  const std::string why = std::strerror(failure.number);
  if (failure.step == "cwd") return {Code::invalid, "cwd: " + why};
  if (failure.step == "exec") {
    return {Code::invalid, failure.number == E2BIG ? "the command and its environment are too long"
                                                   : "the program can't be executed: " + why};
  }
  if (failure.number == EBUSY) return {Code::conflict, "another command runs in the shell"};
  if (failure.step == "find the shell") return {Code::conflict, "the shell is closed"};
  if (failure.number == ECONNRESET) {
    // It may have begun: whether to run it again is the caller's to say.
    return {Code::unavailable, "the sandbox ended while the command was started"};
  }
  if (failure.step == "fork" && failure.number == EAGAIN) {
    return {Code::limited, "the sandbox has reached its limit of processes"};
  }
  if (failure.number == EAGAIN || failure.number == ENOMEM || failure.number == EMFILE ||
      failure.number == ENOSPC) {  // all terminals are taken
    return {Code::limited, "the sandbox can't " + failure.step + ": " + why};
  }
  return {Code::internal, "the sandbox can't " + failure.step + ": " + why};
}

sandbox::Exit translate(const guest::Exited& exited) {
  struct Row {
    std::uint32_t bit;
    const char* name;
  };
  constexpr Row kLimits[] = {{guest::kHitMemory, "memory"},
                             {guest::kHitPids, "pids"},
                             {guest::kHitCpu, "cpu"},
                             {guest::kHitDisk, "disk"}};
  sandbox::Exit exit;
  exit.signal = exited.signal;
  exit.cause = translate(exited.cause);
  exit.code = exited.signal != 0 ? 128 + exited.signal : exited.code;
  if (exit.cause == sandbox::Cause::timeout) exit.code = kTimeoutCode;
  for (const Row& row : kLimits) {
    if (exited.limits_hit & row.bit) exit.limits_hit.emplace_back(row.name);
  }
  exit.wall = std::chrono::microseconds{exited.wall_us};
  exit.cpu = std::chrono::microseconds{exited.cpu_us};
  exit.peak_memory = Bytes{exited.peak_bytes};
  return exit;
}

}  // namespace tb::box
