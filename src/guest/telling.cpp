// SPDX-License-Identifier: Apache-2.0
// What the server is told of commands, once and, when it was replaced, again.
#include <algorithm>

#include "guest/clock.h"
#include "guest/commands.h"
#include "os/fdpass.h"

namespace tb::guest {
namespace {

Writer with_end(const Writer& started, const Exited& exited) {
  Writer end, both;
  exited.encode(end);
  both.u8(static_cast<std::uint8_t>(Message::both));
  both.bytes(started.view());
  both.bytes(end.view());
  return both;
}

}  // namespace

// With its end, if it has one already: most commands are short, and the server is woken once.
void Commands::tell_start(int control, Command& command) {
  Started started;
  started.id = command.id;
  const Command* home = command.in_shell ? find(command.in_shell) : &command;
  started.pid = home ? home->pid : 0;
  started.age_us = now_us() - command.began_us;
  started.streams = command.ends.kind;
  started.note = command.note;
  started.taken[0] = command.ends.taken[0];
  started.taken[1] = command.ends.taken[1];
  Writer out;
  started.encode(out);
  const bool both = command.exit && !command.end_told && !config_.in_container;
  if (both) out = with_end(out, *command.exit);
  command.start_told =
      os::send_packet(control, out.view(), command.ends.ours, descriptors_of(started.streams)) == 1;
  if (both) command.end_told = command.start_told;
}

bool Commands::tell(int control, Command& command) {
  Writer out;
  if (command.failure) {
    if (command.end_told) return true;
    command.failure->encode(out, Message::start_failed);
    command.end_told = os::send_packet(control, out.view()) == 1;
    return command.end_told;
  }
  if (command.shell) return tell_shell(control, command);
  if (!command.running || (!command.exit && command.quiet_us > now_us())) return true;
  if (!command.start_told) tell_start(control, command);
  if (command.start_told && command.exit && !command.end_told) {
    command.exit->encode(out);
    command.end_told = os::send_packet(control, out.view()) == 1;
  }
  return command.start_told && (!command.exit || command.end_told);
}

bool Commands::report(int control) {
  if (!ready_told_) {
    Ready ready;
    ready.commands = static_cast<std::uint32_t>(std::count_if(
        commands_.begin(), commands_.end(), [](const auto& c) { return c->running; }));
    Writer out;
    ready.encode(out);
    ready_told_ = os::send_packet(control, out.view()) == 1;
    if (!ready_told_) return false;
  }
  for (const auto& command : commands_) {
    if (!tell(control, *command)) return false;
  }
  forget_released();
  return true;
}

void Commands::tell_again() {
  start_held();
  ready_told_ = false;
  for (const auto& command : commands_) {
    command->start_told = false;
    command->end_told = false;
    if (command->shell) command->shell->told = false;
  }
}

}  // namespace tb::guest
