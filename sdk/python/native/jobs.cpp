// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>

#include "make_job.h"

namespace tb::python {
namespace {

sandbox::Stream stream(Arguments& in) {
  const std::string name = in.text();
  if (name == "all") return sandbox::Stream::all;
  if (name == "stdout") return sandbox::Stream::out;
  if (name == "stderr") return sandbox::Stream::err;
  PyErr_SetString(PyExc_ValueError, "stream must be stdout, stderr or all");
  throw Raised{};
}

// command, timeout, cwd, env, stdin
sandbox::Command read_command(Arguments& in) {
  sandbox::Command command;
  command.script = in.text();
  command.timeout = in.timeout();
  if (auto cwd = in.optional_text()) command.cwd = std::move(*cwd);
  command.env = in.pairs();
  command.input = in.text();
  return command;
}

Job create_session(Arguments& in) {
  session::SessionSpec spec;
  spec.user = in.text();
  spec.thread = in.text();
  spec.policy = in.optional_text().value_or("");
  spec.idle = in.timeout().value_or(Milliseconds{30min});
  return job([spec](CoreRef core) { return embed::create_session(std::move(core), spec); });
}

Job find_session(Arguments& in) {
  return job(
      [thread = in.text()](CoreRef core) { return embed::find_session(std::move(core), thread); });
}

Job session_status(Arguments& in) {
  return job([id = in.text()](CoreRef core) { return embed::session_status(std::move(core), id); });
}

Job close_session(Arguments& in) {
  return job([id = in.text()](CoreRef core) { return embed::close_session(std::move(core), id); });
}

Job health(Arguments&) {
  return job([](CoreRef core) { return embed::health(std::move(core)); });
}

Job execute(Arguments& in) {
  const std::string id = in.text();
  auto stopper = std::make_shared<embed::Stopper>();
  Job result = job([id, stopper, command = read_command(in)](CoreRef core) mutable {
    return embed::execute(std::move(core), id, std::move(command), stopper);
  });
  result.stopper = stopper;
  return result;
}

// session, command, timeout, cwd, env, stdin, argv, stdin_open, pty, tag, key
Job start(Arguments& in) {
  const std::string id = in.text();
  sandbox::Command command = read_command(in);
  command.argv = in.words();
  command.keep_stdin_open = in.flag();
  command.terminal = in.terminal();
  command.tag = in.text();
  command.key = in.text();
  auto stopper = std::make_shared<embed::Stopper>();
  Job result = job([id, stopper, command](CoreRef core) mutable {
    return embed::start(std::move(core), id, std::move(command), stopper);
  });
  result.stopper = stopper;
  return result;
}

Job processes(Arguments& in) {
  return job([id = in.text()](CoreRef core) { return embed::processes(std::move(core), id); });
}

Job process(Arguments& in) {
  const std::string id = in.text();
  const std::uint32_t which = process_number(in);
  return job([=](CoreRef core) { return embed::process(std::move(core), id, which); });
}

Job wait(Arguments& in) {
  const std::string id = in.text();
  const std::uint32_t which = process_number(in);
  return job([=](CoreRef core) { return embed::wait(std::move(core), id, which); });
}

Job kill(Arguments& in) {
  const std::string id = in.text();
  const std::uint32_t which = process_number(in);
  return job([=](CoreRef core) { return embed::kill(std::move(core), id, which); });
}

Job signal(Arguments& in) {
  const std::string id = in.text();
  const std::uint32_t which = process_number(in);
  const auto number = static_cast<int>(in.count());
  const bool tree = in.flag();
  return job(
      [=](CoreRef core) { return embed::send_signal(std::move(core), id, which, number, tree); });
}

Job resize(Arguments& in) {
  const std::string id = in.text();
  const std::uint32_t which = process_number(in);
  const auto rows = static_cast<unsigned>(in.count());
  const auto columns = static_cast<unsigned>(in.count());
  return job(
      [=](CoreRef core) { return embed::resize(std::move(core), id, which, rows, columns); });
}

Job write_stdin(Arguments& in) {
  const std::string id = in.text();
  const std::uint32_t which = process_number(in);
  return job([id, which, data = in.data()](CoreRef core) mutable {
    return embed::write_input(std::move(core), id, which, std::move(data));
  });
}

Job close_stdin(Arguments& in) {
  const std::string id = in.text();
  const std::uint32_t which = process_number(in);
  return job([=](CoreRef core) { return embed::close_input(std::move(core), id, which); });
}

// session, process, stream, offset, limit, seconds to wait or None
Job output(Arguments& in) {
  const std::string id = in.text();
  embed::Wanted wanted;
  wanted.process = process_number(in);
  wanted.stream = stream(in);
  wanted.offset = in.count();
  wanted.limit = in.count();
  wanted.wait = in.timeout().value_or(Milliseconds{0});
  return job([=](CoreRef core) { return embed::output(std::move(core), id, wanted); });
}

Job follow(Arguments& in) {
  const std::string id = in.text();
  embed::Seen seen;
  seen.process = process_number(in);
  seen.out = in.count();
  seen.err = in.count();
  seen.wait = in.timeout();
  return job([=](CoreRef core) { return embed::follow(std::move(core), id, seen); });
}

constexpr JobRow kJobs[] = {{"execute", execute},
                            {"create_session", create_session},
                            {"find_session", find_session},
                            {"session_status", session_status},
                            {"close_session", close_session},
                            {"health", health},
                            {"start", start},
                            {"processes", processes},
                            {"process", process},
                            {"wait", wait},
                            {"kill", kill},
                            {"signal", signal},
                            {"resize", resize},
                            {"write_stdin", write_stdin},
                            {"close_stdin", close_stdin},
                            {"output", output},
                            {"follow", follow}};

}  // namespace

std::uint32_t process_number(Arguments& in) {
  const std::uint64_t number = in.count();
  if (number <= UINT32_MAX) return static_cast<std::uint32_t>(number);
  PyErr_SetString(PyExc_ValueError, "no process has such a number");
  throw Raised{};
}

Job make_job(std::string_view name, Arguments arguments) {
  for (const std::span<const JobRow> rows :
       {std::span<const JobRow>{kJobs}, file_jobs(), shell_jobs(), code_jobs()}) {
    for (const JobRow& row : rows) {
      if (row.name != name) continue;
      Job made = row.make(arguments);
      arguments.end();
      return made;
    }
  }
  PyErr_Format(PyExc_ValueError, "no operation %s", std::string{name}.c_str());
  throw Raised{};
}

}  // namespace tb::python
