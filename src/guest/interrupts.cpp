// SPDX-License-Identifier: Apache-2.0
// An interrupt of what a shell runs. Without a terminal nobody but us knows whom it is for: the
// shell, and what it has started since the run began.
#include <signal.h>

#include "guest/clock.h"
#include "guest/commands.h"
#include "guest/look.h"

namespace tb::guest {
namespace {

constexpr std::uint64_t kAgain = 40 * 1000;       // microseconds between the rounds of an interrupt
constexpr int kRounds = 3;                        // of those who come to it
constexpr std::uint64_t kPatience = 2000 * 1000;  // with who does not
constexpr std::uint64_t kEnough = 2;  // ticks of 10 ms: whoever has had them has come to it

// Not who only waits for a processor, as all do in a sandbox that has used up its share.
bool has_come_to_it(int pid, std::uint64_t ticks) {
  const Look look = look_at(pid);
  return !look.wants_to_run() || look.ticks >= ticks;
}

}  // namespace

void Commands::signal_run(Command& run, int number) {
  if (run.exit) return;
  if (number == SIGKILL) return end_run(run, Cause::killed);
  Command* const home = find(run.in_shell);
  if (!home) return;
  if (number != SIGINT) {
    for (const int pid : newcomers(*home)) ::kill(pid, number);
    return;
  }
  Shell& shell = *home->shell;
  shell.interrupt = {
      .rounds = kRounds, .since_us = now_us(), .ticks = look_at(home->pid).ticks + kEnough};
  // Where the run is over and only not told yet, it's not for the shell: it would hit the next one.
  if (!shell.answer) interrupt_shell(*home);
  interrupt(*home);
}

void Commands::interrupt_shell(Command& command) {
  if (command.pid <= 0) return;
  ::kill(command.pid, SIGINT);
  ::kill(command.pid, SIGCONT);  // it may have stopped itself
  // If it had ended just before, the interrupt has cost us the line that tells.
  feed_question(*command.shell);
}

// A shell that is just starting a program waits for what its interrupt does to that program, which
// was not there yet when we looked, or still had the shell's own way with interrupts: so we look
// again, even when the shell has told that the run is over: interrupted between a program's start
// and the wait for it, it waits for it later. No other program gets it twice.
void Commands::interrupt(Command& command) {
  Interrupt& now = command.shell->interrupt;
  const bool first = now.rounds == kRounds;
  const bool before = now.shell_came;
  now.shell_came = before || has_come_to_it(command.pid, now.ticks);
  bool late = !now.shell_came;
  const std::string own = words_of(command.pid);
  for (const int pid : newcomers(command)) {
    if (contains(now.had_it, pid)) continue;
    const bool copy = words_of(pid) == own;
    // What it starts when it has come to it is none of this: a trap of its own may do that.
    if (copy && !before) now.starting.push_back(pid);
    late = late || (copy && contains(now.starting, pid) && !has_come_to_it(pid, 1));
    ::kill(pid, SIGINT);
    if (!copy) now.had_it.push_back(pid);
  }
  const std::uint64_t time = now_us();
  // Who is late is waited for: those rounds are not counted.
  if (first || !late || time > now.since_us + kPatience) --now.rounds;
  command.shell->next_us = time + kAgain;
}

}  // namespace tb::guest
