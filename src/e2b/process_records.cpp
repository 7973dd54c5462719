// SPDX-License-Identifier: Apache-2.0
// What the next server must know of a process: a file beside its output.
#include <filesystem>

#include "base/codec.h"
#include "base/log.h"
#include "box/command.h"
#include "e2b/sandbox.h"
#include "os/fd.h"

namespace tb::e2b {
namespace {

constexpr std::uint8_t kVersion = 1;

using Wall = std::chrono::system_clock;

std::uint64_t to_micros(Wall::time_point time) {
  const auto since = time.time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(since).count());
}

}  // namespace

void E2bSandbox::save(const E2bProcess& process) const {
  Writer out;
  out.u8(kVersion);
  out.bytes(process.run());
  out.bytes(box::to_note(process.info()));
  out.u64(process.deadline() ? to_micros(*process.deadline()) : 0);
  out.u8(process.takes_input() ? 1 : 0);
  out.u8(process.exit() ? 1 : 0);
  if (process.exit()) {
    out.i32(process.exit()->code);
    out.i32(process.exit()->signal);
    out.u8(static_cast<std::uint8_t>(process.exit()->cause));
    out.u64(static_cast<std::uint64_t>(process.exit()->wall.count()));
  }
  try {
    os::replace_file(path_of(process.id()) + ".process", out.view(), 0600);
  } catch (const Error& error) {
    // A full disk costs the memory of it after a restart, not the answer.
    log(LogLevel::warning, "e2b_process_not_recorded", {{"error", error.what()}});
  }
}

bool E2bSandbox::load_process(std::uint32_t id) {
  const std::string text = os::read_file(path_of(id) + ".process");
  Reader in{text};
  if (in.u8() != kVersion) return false;
  std::string run = in.bytes();
  sandbox::ProcessInfo info;
  if (!box::from_note(in.bytes(), info)) return false;
  const std::uint64_t deadline = in.u64();
  const bool takes_input = in.u8() != 0;
  const bool exited = in.u8() != 0;
  sandbox::Exit exit;
  if (exited) {
    exit.code = in.i32();
    exit.signal = in.i32();
    exit.cause = static_cast<sandbox::Cause>(std::min<std::uint8_t>(in.u8(), 6));
    exit.wall = std::chrono::microseconds{static_cast<std::int64_t>(in.u64())};
  }
  if (!in.done()) return false;
  auto process = make_process(id, std::move(run), std::move(info));
  processes_[id] = process;
  if (exited) {
    process->restore(std::move(exit));
    return true;
  }
  std::optional<Milliseconds> left;
  if (deadline != 0) {
    const Wall::time_point until{std::chrono::microseconds{static_cast<std::int64_t>(deadline)}};
    left = std::chrono::duration_cast<Milliseconds>(until - Wall::now());
  }
  process->resume(left);
  if (takes_input) process->open_input({}, true);
  follow(process);
  return true;
}

void E2bSandbox::adopt_processes() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator{settings_.dir, ignored}) {
    if (entry.path().extension() != ".process") continue;
    std::uint32_t id = 0;
    const std::string name = entry.path().stem();
    for (const char c : name)
      id = c >= '0' && c <= '9' ? id * 10 + static_cast<unsigned>(c - '0') : 0;
    if (id == 0) continue;
    next_ = std::max(next_, id + 1);
    if (!load_process(id)) {
      log(LogLevel::warning, "e2b_process_forgotten", {{"process", name}});
    }
  }
}

}  // namespace tb::e2b
