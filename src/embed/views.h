// SPDX-License-Identifier: Apache-2.0
// What operations answer: values, taken on the engine's thread and read on any other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sandbox/lines.h"
#include "sandbox/sandbox.h"
#include "session/session.h"
#include "shell/runs.h"

namespace tb::embed {

struct SessionView {
  std::string id;
  std::string thread;
  std::string policy;
  std::string status;  // created, existing, active
  session::WallTime created;
  session::WallTime last_activity;
  session::WallTime expires;
};

struct FoundView {
  SessionView session;
  std::optional<std::uint64_t> files;  // absent: its sandbox sleeps, or can't tell
};

struct ProcessView {
  std::uint32_t id = 0;
  sandbox::ProcessInfo info;
  bool input_open = false;
  std::uint64_t out_bytes = 0;
  std::uint64_t err_bytes = 0;
  std::optional<sandbox::Exit> exit;
};

struct Executed {
  std::uint32_t process = 0;
  sandbox::Captured out;
  sandbox::Captured err;
  sandbox::Captured all;
  sandbox::Exit exit;
};

struct Page {
  std::uint64_t offset = 0;   // of the first byte
  std::uint64_t dropped = 0;  // bytes before it, from where it was asked for, that are not kept
  std::string bytes;
  std::uint64_t total = 0;  // printed so far
  bool more = false;        // can come
  bool running = false;     // the process
};

// What came since the last look.
struct Pieces {
  Page out;
  Page err;
  bool ended = false;  // the process has, and all that it printed by then was told
  ProcessView process;
};

// A process as it is now, and what an answer carries of one that has ended.
ProcessView view_of(const sandbox::Process& process);
Executed executed_of(const sandbox::Process& process);

struct ShellView {
  std::uint32_t id = 0;
  sandbox::ProcessInfo info;
  sandbox::Shell::State state = sandbox::Shell::State::waiting;
  std::string cwd;
  unsigned generation = 0;
  std::uint32_t run = 0;  // the process at work in it, or the last one
  std::size_t waiting = 0;
};

struct ShellRan {
  Executed executed;
  shell::Facts facts;
};

struct FileView {
  std::string path;  // relative to the workspace
  sandbox::FileInfo info;
};

struct Walked {
  sandbox::Listing listing;
  std::optional<std::string> cursor;  // of what comes after it
};

struct EditedView {
  FileView file;
  std::uint64_t replaced = 0;
  std::vector<std::uint64_t> lines;
};

struct StatusView {
  SessionView session;
  bool awake = false;  // it has a sandbox right now
  std::size_t running = 0;
  sandbox::Load before;  // two looks a moment apart
  sandbox::Load load;
  std::chrono::microseconds between{0};
};

struct HealthView {
  std::size_t ready = 0;
  std::size_t used = 0;
  std::size_t sessions = 0;
  std::chrono::seconds uptime{0};
  struct Row {
    std::string name;
    std::string state;
    std::string detail;
  };
  std::vector<Row> isolation;
};

}  // namespace tb::embed
