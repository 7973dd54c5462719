// SPDX-License-Identifier: Apache-2.0
// The nouns: a Provider makes Sandboxes, a Sandbox runs Commands as Processes, a Process has Output
// and an Exit. Values and interfaces only; all of them live on one thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "sandbox/files.h"
#include "sandbox/mounts.h"

namespace tb::sandbox {

using boost::asio::awaitable;

// Enforced by the kernel while a command runs.
struct Limits {
  Bytes memory = 256_MiB;
  Bytes disk = 500_MiB;
  unsigned cpu_quota = 25000;  // of 100000: one core
  unsigned pids = 256;
  unsigned open_files = 1024;
  bool operator==(const Limits&) const = default;
};

// What is kept of a command's output.
struct OutputLimits {
  Bytes inline_bytes = 1_MiB;  // of each stream in an answer: its head and its tail
  Bytes stored = 64_MiB;       // of each stream on disk
};

struct Terminal {
  unsigned rows = 24;
  unsigned columns = 80;
};

struct Command {
  std::vector<std::string> argv;  // or, when `script` is set:
  std::string script;             // bash text
  std::string cwd = "/workspace";
  std::vector<std::pair<std::string, std::string>> env;  // beside the default environment
  std::string input;                                     // all of stdin, or:
  bool keep_stdin_open = false;  // its beginning; more is written to the process
  // Stdin, stdout and stderr are one terminal of this size. Its output is the stream `out`, and its
  // stdin is always open.
  std::optional<Terminal> terminal;
  std::optional<Milliseconds> timeout;
  std::string tag;         // the caller's name for it
  std::string key;         // of starts with the same key only the first one happens
  std::string notify_url;  // who is told of its end; empty: nobody
  // The script runs in this shell, with its directory and variables; 0: in a bash of its own.
  std::uint32_t shell = 0;
};

// A bash that keeps between its runs what they changed in it.
struct ShellSpec {
  std::string cwd = "/workspace";
  std::vector<std::pair<std::string, std::string>> env;  // beside the default environment
  std::string tag;                                       // the caller's name for it
};

// Every end has one.
enum class Cause { exited, signal, timeout, oom, killed, policy, lost };
std::string_view name_of(Cause cause);

struct Exit {
  int code = 0;  // as a shell tells it: 128 + signal when a signal ended it, 124 on timeout
  int signal = 0;
  Cause cause = Cause::exited;
  std::vector<std::string> limits_hit;  // memory, pids, cpu, disk
  std::chrono::microseconds wall{0};
  std::chrono::microseconds cpu{0};
  Bytes peak_memory;
};

enum class Stream { out = 0, err = 1, all = 2 };

// As much of a stream as an answer carries.
struct Captured {
  std::string text;  // bytes as they came; a gap is marked by a line that says how much is left out
  bool truncated = false;
  std::uint64_t total = 0;
};

// Bytes of a stream where they stand: part of a file that only grows, and that its owner keeps
// open.
struct FilePart {
  int file = -1;
  std::uint64_t offset = 0;
  std::size_t size = 0;
  std::shared_ptr<const void> owner;
};

// What a process was started as.
struct ProcessInfo {
  std::string tag;
  std::string key;
  std::string notify_url;  // empty too once its end was told
  std::string command;     // the script, or the words of argv; its beginning when it is long
  std::string cwd;
  bool terminal = false;
  std::chrono::system_clock::time_point started;
  int pid = 0;              // as the sandbox numbers it; 0: not known any more
  std::uint32_t shell = 0;  // that it ran in
};

// Another program has the sandbox now; what was waited for goes on there. Who asks again may have
// it back.
class Detached : public Error {
 public:
  Detached() : Error(Code::unavailable, "another program has the sandbox now") {}
};

class Process {
 public:
  virtual ~Process() = default;
  virtual std::uint32_t id() const = 0;
  virtual const ProcessInfo& info() const = 0;
  // Set once it has ended and what it printed until then is stored.
  virtual const std::optional<Exit>& exit() const = 0;
  // Waits for that.
  virtual awaitable<Exit> wait() = 0;
  // Called once, when exit() is set and before those who wait go on. One callback at most; none
  // when it has ended already.
  virtual void on_exit(std::function<void(const Exit&)> callback) = 0;
  // Ends it with everything that it started. Does not wait.
  virtual void kill() = 0;
  // To everything that it started, or to its leader alone. Error{invalid}: no such signal.
  virtual void signal(int number, bool tree) = 0;

  // Returns once the bytes are in the pipe, where they outlive the server; waits while it is full.
  // What several callers write arrives in the order of their calls. Error{conflict}: stdin is
  // closed, or was never open.
  virtual awaitable<void> write_input(std::string bytes) = 0;
  // The same, but what the pipe has not taken after `limit` is taken back. Returns how many bytes
  // it took.
  virtual awaitable<std::size_t> offer_input(std::string bytes, Milliseconds limit) = 0;
  // What was written before still arrives. A terminal's stdin can't be closed: it is typed an end
  // of file (Ctrl-D) instead.
  virtual void close_input() = 0;
  virtual bool input_open() const = 0;
  // Error{invalid}: it has no terminal, or not of that size.
  virtual void resize(unsigned rows, unsigned columns) = 0;

  virtual std::uint64_t output_size(Stream stream) const = 0;  // printed so far, kept or not
  virtual Captured captured(Stream stream) const = 0;
  // Bytes from `offset` on, at most `limit`; empty at the end of what is kept.
  virtual std::string read_output(Stream stream, std::uint64_t offset, std::size_t limit) const = 0;
  // The same for who passes many bytes on and need not see them. Empty: they are few, or in no
  // file; read them.
  virtual std::optional<FilePart> find_output(Stream stream, std::uint64_t offset,
                                              std::size_t limit) const = 0;
  // `offset`, or where what is kept goes on when that was dropped.
  virtual std::uint64_t next_output(Stream stream, std::uint64_t offset) const = 0;
  // Until there is output beyond `offset`, or no more will come. Any number may wait; the process
  // does not wait for them.
  virtual awaitable<void> wait_output(Stream stream, std::uint64_t offset) = 0;
  // No more will come: nobody has the stream open. That may be long after the process's own end.
  virtual bool output_ended(Stream stream) const = 0;
};

class Shell {
 public:
  enum class State { waiting, running, dead };  // dead: the next run opens it again
  virtual ~Shell() = default;
  virtual std::uint32_t id() const = 0;
  virtual const ProcessInfo& info() const = 0;
  virtual State state() const = 0;
  virtual const std::string& cwd() const = 0;  // as of its last run's end
  // How often it was opened: it is again after its end, with what it knew after its last whole
  // run, if `restored`.
  virtual unsigned generation() const = 0;
  virtual bool restored() const = 0;
  // How it ended the last time, if ever.
  virtual const std::optional<Exit>& last_end() const = 0;
  // The process at work in it then; 0: none.
  virtual std::uint32_t last_end_run() const = 0;
  // The process at work in it, or the last one; 0: none yet.
  virtual std::uint32_t run() const = 0;
  // It was closed, or its sandbox is gone.
  virtual bool closed() const = 0;
  // Ends it with everything that it started. Returns when that was done.
  virtual awaitable<void> close() = 0;
  // Until its state is another than when this was called.
  virtual awaitable<void> changed() = 0;
};

// Absent: this host can't tell.
struct Load {
  std::optional<Bytes> memory;
  std::optional<std::chrono::microseconds> cpu;  // since it was made
  std::optional<std::uint64_t> processes;
};

class Sandbox {
 public:
  virtual ~Sandbox() = default;
  virtual const std::string& id() const = 0;
  virtual const std::string& label() const = 0;
  virtual bool alive() const = 0;
  // Returns once exec(2) succeeded; throws Error{invalid} when it can't run, and says why.
  virtual awaitable<std::shared_ptr<Process>> start(Command command) = 0;
  virtual std::shared_ptr<Process> find_process(std::uint32_t id) const = 0;
  // Running ones and those whose output is still kept, oldest first.
  virtual std::vector<std::shared_ptr<Process>> processes() const = 0;
  // Those of them that have not ended.
  virtual std::vector<std::shared_ptr<Process>> running() const {
    auto list = processes();
    std::erase_if(list, [](const auto& process) { return process->exit().has_value(); });
    return list;
  }
  // Somebody will get it, and then command something: what can be done ahead of that may be.
  virtual void expect_command() {}
  // Its end is told to whom notify_url names: the next server need not.
  virtual void notified(std::uint32_t process) = 0;
  // Returns once it runs; Error{invalid} when it can't. A run in it is a process: start() with
  // `Command::shell`. One at a time; Error{conflict} for the second.
  virtual awaitable<std::shared_ptr<Shell>> open_shell(ShellSpec spec) = 0;
  virtual std::shared_ptr<Shell> find_shell(std::uint32_t id) const = 0;
  virtual std::vector<std::shared_ptr<Shell>> shells() const = 0;
  virtual Files& files() = 0;
  // What all of it takes right now.
  virtual awaitable<Load> load() = 0;
  // Where its ports are reached from outside; empty: nowhere.
  virtual std::string url() const { return {}; }
};

struct SandboxSpec {
  std::string id;                    // an id whose files are still there gets them back
  std::string environment = "host";  // what is in it; each provider has words of its own
  Limits limits;
  Milliseconds idle{0};  // 0: never ends by itself
  std::string label;     // kept with it for the next server; empty: belongs to nobody yet
  std::vector<std::string> programs;  // only these can be executed or read; empty: any
  bool network = false;               // reaches the internet
  std::vector<Mount> mounts = {};
};

// One that an earlier server made.
struct Found {
  std::string id;
  std::string label;
  bool alive = false;  // else only its files are there
};

// A sandbox ended without being asked to: it expired, or its PID 1 died and its files are kept.
using OnGone = std::function<void(const std::string& id, bool files_kept)>;

class Provider {
 public:
  virtual ~Provider() = default;
  virtual awaitable<std::shared_ptr<Sandbox>> create(SandboxSpec spec) = 0;
  virtual awaitable<std::vector<Found>> list() = 0;
  // Connects to one that runs already; what it printed in between is not lost.
  virtual awaitable<std::shared_ptr<Sandbox>> adopt(Found found) = 0;
  // The same for one that several programs share, each in its turn: waits for that. What fails ends
  // nothing.
  virtual awaitable<std::shared_ptr<Sandbox>> join(Found found) { return adopt(std::move(found)); }
  // It is another program's turn: waits of ours end with Detached, what runs goes on.
  virtual void release(Sandbox& sandbox) { static_cast<void>(sandbox); }
  // Names its owner and how long it may be idle from now on. Does not wait: what was said to a
  // keeper is carried out even if we die.
  virtual void assign(Sandbox& sandbox, std::string label, Milliseconds idle) = 0;
  // It was used: `idle` begins anew. Does not wait.
  virtual void renew(Sandbox& sandbox, Milliseconds idle) = 0;
  // Ends all its processes and removes its files. Returns when all of it is gone.
  virtual awaitable<void> destroy(std::string id) = 0;
  // Ends one in which nothing is but files, and keeps them; create() brings it back. False: there
  // is more in it, and it goes on.
  virtual awaitable<bool> rest(std::string id);
  virtual void on_gone(OnGone callback) = 0;
  // Who keeps the volumes that it mounts; null: it mounts none.
  virtual VolumeHost* volumes() { return nullptr; }
};

}  // namespace tb::sandbox
