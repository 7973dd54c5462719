// SPDX-License-Identifier: Apache-2.0
// The commands of one sandbox: started, watched, ended, and remembered until the server knows.
#pragma once

#include <sys/resource.h>

#include <memory>

#include "guest/cgroups.h"
#include "guest/command.h"
#include "guest/container_wire.h"
#include "guest/expect_wire.h"
#include "guest/launch.h"
#include "guest/prestart.h"

namespace tb::guest {

class Commands {
 public:
  Commands(const Config& config, int epoll);
  ~Commands();

  void start(Start start);
  void expect(Expect expect);
  void signal(const Signal& signal);
  void release(const Release& release);
  void close_input(const CloseInput& close);
  // Drops what was stored and tells `control` so. False: it could not be told.
  bool drop_output(const Taken& stored, int control);
  // A child of PID 1 that is no command's, and is not to be ended with what one left behind.
  void spare(int pid) { spared_.push_back(pid); }
  // After SIGCHLD: collects every process that ended, our commands and orphans alike.
  void reap();
  // A descriptor that start() put into epoll is ready.
  void on_report(int fd);
  // Ends what has run too long. Milliseconds until the next deadline, or -1.
  int enforce_deadlines();
  // Starts a shell for the next command, if one was asked for: after the last one's end was told.
  void refill();
  // Lets those go on who stopped for us to tell of their end.
  void let_go();

  // Tells the server what it has not been told yet. False: the socket is full, try again later.
  bool report(int control);
  // The server was replaced: everything will be told again, after Ready.
  void tell_again();

 private:
  static constexpr std::size_t kMaxCommands = 128;  // known at once, finished ones included
  Command* find(std::uint32_t id);
  // Nothing runs that it knows of.
  bool idle() const;
  // One that was started after it.
  bool later_runs(std::uint32_t id) const;
  const char* prepare(Command& command, const Start& start);
  const char* begin(Command& command, const Start& start);
  void fail(Command& command, const char* step);
  Step run(Command& command, const Launch& launch);
  void watch(int fd);
  void on_status(Command& command);
  void on_minder(Command& command);
  void minder_ended(int pid, int status);
  void ended(Command& command, int status, std::uint64_t cpu_us, std::uint64_t peak_bytes);
  void judge(Command& command, int status);
  void end(Command& command, Cause cause);
  void tell_start(int control, Command& command);
  bool tell(int control, Command& command);
  void forget_released();

  bool command_gone(int pid, int status, const rusage& usage);

  // ---- ends that are told before they are over: following.cpp ----
  void stopped(int pid, int status, const rusage& usage);
  void begin_to_follow(int pid, int signal);
  bool any_dying() const;
  void start_held();
  void start_now(Start start);
  void forget_followed(int pid);

  // ---- shells that are started ahead of their command: prestart.cpp ----
  bool hand_over(Command& command, const Start& start);
  void taken(Command& command);
  void not_taken(Command& command);
  bool settle(Command& command);
  std::uint64_t tend_offer(Command& command, std::uint64_t now);
  void ask_for_shell(const Start& start);
  void wish_refill();
  struct Place {
    int cgroup = -1;
    const char* original = nullptr;  // the program of one that is to be copied
    Minder* minder = nullptr;        // without cgroups
  };
  Launched launch_waiter(int socket, const Place& place);
  void start_ahead();
  void wait_with(std::unique_ptr<Command> shell, const Start& like);
  void hear(Command& shell);
  void never_waited(bool copied);
  void hear_of_waiting();
  void drop_waiting();
  void waiting_ended();
  std::uint64_t tend_waiting(std::uint64_t now);

  // ---- copies of one that was: copies.cpp ----
  void refill_with_copy();
  void start_original();
  bool original_is_closed();
  bool original_lives() const;
  void make_copy(std::uint32_t ahead_ms, bool ahead);
  std::string trusted_bash() const;
  void learn_pids();
  void original_ended();
  void drop_original();
  void forget_original();
  void keep_originals_alone();
  std::uint64_t tend_original(std::uint64_t now);

  // ---- shells and what runs in them: shells.cpp ----
  void open_shell(Command& command, Start start);
  const char* open_again(Command& command);
  void start_run(Command& command, const Start& start);
  void on_words(Command& command);
  void end_run(Command& run, Cause cause);
  void press(Command& command);
  std::uint64_t tend(Command& command, std::uint64_t now);
  void finish_run(Command& command, int status);
  void drop_leader(Command& command);
  void leader_ended(Command& command, int status);
  void signal_run(Command& run, int number);
  void interrupt(Command& command);
  static void interrupt_shell(Command& command);
  std::vector<int> newcomers(const Command& command) const;
  void end_newcomers(Command& command, bool spare_leader);
  void close_shell(Command& command);
  bool tell_shell(int control, Command& command);

  const Config& config_;
  int epoll_;
  CommandCgroups cgroups_;
  Counters counters_;
  Counters::Values last_counts_;
  std::vector<std::unique_ptr<Command>> commands_;
  std::vector<int> old_minders_;  // of commands that are forgotten
  std::vector<int> spared_;
  std::vector<int> followed_;  // stop for us when they end
  std::vector<int> stopped_;   // do so right now
  std::vector<int> dying_;     // their end was told, and they are still there
  std::uint64_t dying_until_us_ = 0;
  std::vector<Start> held_;           // until those are gone
  int reaped_ = -1;                   // right now
  std::unique_ptr<Command> waiting_;  // a shell without a command
  std::unique_ptr<Original> original_;
  std::unique_ptr<Start> next_;  // what the next command is expected to be like
  std::uint64_t refill_us_ = 0;  // when to start a shell; 0: no need
  Processors processors_;
  unsigned unused_ = 0;      // commands that the waiting shell was no good for
  unsigned unloadable_ = 0;  // shells that ended before they waited
  unsigned uncopied_ = 0;    // copies that did
  bool ready_told_ = false;
};

}  // namespace tb::guest
