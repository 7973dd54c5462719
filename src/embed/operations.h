// SPDX-License-Identifier: Apache-2.0
// What a client can ask of an engine: each a coroutine on the engine's thread. They do what the
// handlers of api/ do for the same requests, with values in place of JSON.
#pragma once

#include <csignal>
#include <functional>

#include "embed/core.h"
#include "embed/views.h"
#include "sandbox/writing.h"

namespace tb::embed {

using CoreRef = std::shared_ptr<Core>;

// A process or a shell that is not there. Else Error{not_found} is the session's.
class NoProcess : public Error {
 public:
  explicit NoProcess(const char* what = "process")
      : Error(Code::not_found, std::string{"no such "} + what + " in this session") {}
};

// Sandboxes can't be made here, or not now; the text says what is missing.
class SetUpError : public Error {
 public:
  explicit SetUpError(const std::string& text) : Error(Code::unavailable, text) {}
};

// A file, or all of them, would be too large or too many.
class LimitError : public Error {
 public:
  explicit LimitError(const std::string& text) : Error(Code::invalid, text) {}
};

// How a caller that has lost interest ends a command. Used on the engine's thread alone.
struct Stopper {
  bool interrupts = false;  // else kills; what runs in a shell must leave it alive
  bool wanted = false;
  std::shared_ptr<sandbox::Process> process;
  std::function<void()> how;  // instead, for what is no process
  void stop() {
    wanted = true;
    check();
  }
  // Also for a process that was set after it was wanted.
  void check() {
    if (wanted && how) return how();
    if (!wanted || !process || process->exit()) return;
    if (interrupts) {
      process->signal(SIGINT, true);
    } else {
      process->kill();
    }
  }
};

// Throws Error{invalid} for what no program could be given.
void check_words(const sandbox::Command& command);

awaitable<SessionView> create_session(CoreRef core, session::SessionSpec spec);
awaitable<std::optional<FoundView>> find_session(CoreRef core, std::string thread);
awaitable<StatusView> session_status(CoreRef core, std::string id);
awaitable<void> close_session(CoreRef core, std::string id);
awaitable<HealthView> health(CoreRef core);

// To its end, or to `stopper`'s: then everything that it started is ended too.
awaitable<Executed> execute(CoreRef core, std::string id, sandbox::Command command,
                            std::shared_ptr<Stopper> stopper);
// Returns once it runs.
awaitable<ProcessView> start(CoreRef core, std::string id, sandbox::Command command,
                             std::shared_ptr<Stopper> stopper);
awaitable<std::vector<ProcessView>> processes(CoreRef core, std::string id);
awaitable<ProcessView> process(CoreRef core, std::string id, std::uint32_t number);
// Until it has ended.
awaitable<ProcessView> wait(CoreRef core, std::string id, std::uint32_t number);
awaitable<ProcessView> kill(CoreRef core, std::string id, std::uint32_t number);
awaitable<ProcessView> send_signal(CoreRef core, std::string id, std::uint32_t number, int signal,
                                   bool tree);
awaitable<ProcessView> resize(CoreRef core, std::string id, std::uint32_t number, unsigned rows,
                              unsigned columns);
awaitable<void> write_input(CoreRef core, std::string id, std::uint32_t number, std::string bytes);
awaitable<void> close_input(CoreRef core, std::string id, std::uint32_t number);

struct Wanted {
  std::uint32_t process = 0;
  sandbox::Stream stream = sandbox::Stream::all;
  std::uint64_t offset = 0;
  std::size_t limit = 1 << 20;
  Milliseconds wait{0};  // for more to come when there is nothing
};
awaitable<Page> output(CoreRef core, std::string id, Wanted wanted);
struct Seen {
  std::uint32_t process = 0;
  std::uint64_t out = 0;  // bytes of each stream
  std::uint64_t err = 0;
  std::optional<Milliseconds> wait;  // absent: until something new comes
};
// What both streams have beyond that, or the end.
awaitable<Pieces> follow(CoreRef core, std::string id, Seen seen);

// ---- shells: shells.cpp ----
awaitable<ShellView> open_shell(CoreRef core, std::string id, sandbox::ShellSpec spec,
                                std::shared_ptr<Stopper> stopper);
awaitable<std::vector<ShellView>> shells(CoreRef core, std::string id);
awaitable<ShellView> shell(CoreRef core, std::string id, std::uint32_t number);
// When it is its turn, to its end. `stopper` interrupts it; the shell lives on.
awaitable<ShellRan> run_in_shell(CoreRef core, std::string id, std::uint32_t number,
                                 sandbox::Command command, std::shared_ptr<Stopper> stopper);
// Returns once it runs; it is followed as any other process.
awaitable<ProcessView> start_in_shell(CoreRef core, std::string id, std::uint32_t number,
                                      sandbox::Command command, std::shared_ptr<Stopper> stopper);
awaitable<void> interrupt_shell(CoreRef core, std::string id, std::uint32_t number);
awaitable<void> close_shell(CoreRef core, std::string id, std::uint32_t number);

// ---- code: code.cpp. Answers are JSON, as the routes have it ----
struct CodeCall {
  code::Cell cell;
  std::optional<std::string> language;  // absent: the context's, or Python
  std::optional<std::string> context;   // absent: the usual one
};
// When it is its turn, to its end. `stopper` interrupts it.
awaitable<std::string> run_code(CoreRef core, std::string id, CodeCall call,
                                std::shared_ptr<Stopper> stopper);
// The same as lines, by a handle.
awaitable<std::uint64_t> begin_code(CoreRef core, std::string id, CodeCall call);
// Those that have come meanwhile; waits for some. Empty at the end.
awaitable<std::string> next_code(CoreRef core, std::uint64_t handle);
// Who leaves early interrupts it.
awaitable<void> end_code(CoreRef core, std::uint64_t handle);
awaitable<std::string> create_context(CoreRef core, std::string id, code::ContextSpec spec);
awaitable<std::string> contexts(CoreRef core, std::string id);
awaitable<std::string> context(CoreRef core, std::string id, std::string name);
awaitable<std::string> restart_context(CoreRef core, std::string id, std::string name);
awaitable<std::string> interrupt_context(CoreRef core, std::string id, std::string name);
awaitable<void> remove_context(CoreRef core, std::string id, std::string name);

// ---- whole files by name, and piece by piece: files.cpp ----
awaitable<sandbox::FileInfo> upload(CoreRef core, std::string id, std::string name,
                                    std::string bytes);
awaitable<std::uint64_t> open_upload(CoreRef core, std::string id);
awaitable<void> write_upload(CoreRef core, std::uint64_t handle, std::string bytes);
awaitable<sandbox::FileInfo> end_upload(CoreRef core, std::uint64_t handle, std::string name);
struct Opened {
  std::uint64_t handle = 0;
  sandbox::FileInfo info;
};
awaitable<Opened> open_download(CoreRef core, std::string id, std::string name);
// Empty at the end.
awaitable<std::string> read_download(CoreRef core, std::uint64_t handle, std::size_t limit);
awaitable<void> close_transfer(CoreRef core, std::uint64_t handle);
awaitable<sandbox::Listing> list_files(CoreRef core, std::string id, std::string path);

// ---- the tree: tree.cpp. Paths as the routes below /files have them ----
awaitable<FileView> stat_file(CoreRef core, std::string id, std::string path);
// `spec.after` is a cursor.
awaitable<Walked> walk_files(CoreRef core, std::string id, sandbox::WalkSpec spec);
awaitable<Walked> glob_files(CoreRef core, std::string id, sandbox::WalkSpec spec);
awaitable<sandbox::FoundLines> search_files(CoreRef core, std::string id, sandbox::SearchSpec spec);
awaitable<FileView> make_directory(CoreRef core, std::string id, std::string path,
                                   std::optional<unsigned> mode);
awaitable<FileView> move_file(CoreRef core, std::string id, std::string from, std::string to,
                              bool replaces);
awaitable<void> remove_file(CoreRef core, std::string id, std::string path, bool recursive);

// ---- contents: contents.cpp ----
awaitable<std::string> read_file(CoreRef core, std::string id, std::string path);
awaitable<sandbox::Lines> read_lines(CoreRef core, std::string id, std::string path,
                                     sandbox::LineRange range);
awaitable<FileView> write_file(CoreRef core, std::string id, std::string path, std::string bytes,
                               sandbox::Naming naming);
awaitable<EditedView> edit_file(CoreRef core, std::string id, std::string path, sandbox::Edit edit);
awaitable<std::string> read_archive(CoreRef core, std::string id, std::vector<std::string> paths,
                                    bool gzip);
awaitable<sandbox::Unpacked> write_archive(CoreRef core, std::string id, std::string path,
                                           std::string bytes);

}  // namespace tb::embed
