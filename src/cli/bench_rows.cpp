// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_rows.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "base/error.h"
#include "base/id.h"

extern char** environ;

namespace tb::cli {

awaitable<std::shared_ptr<sandbox::Sandbox>> Bench::make(unsigned cpu_quota,
                                                         std::vector<std::string> programs) {
  sandbox::SandboxSpec spec;
  spec.id = make_uuid();
  spec.limits.cpu_quota = cpu_quota;
  spec.programs = std::move(programs);
  auto sandbox = co_await provider.create(std::move(spec));
  co_return sandbox;
}

void progress(const std::string& text) {
  if (::isatty(2)) std::fprintf(stderr, "bench: %s\n", text.c_str());
}

awaitable<void> exec(sandbox::Sandbox& sandbox, std::string script) {
  sandbox::Command command;
  command.script = std::move(script);
  command.timeout = 30s;
  auto process = co_await sandbox.start(std::move(command));
  const sandbox::Exit exit = co_await process->wait();
  if (exit.code != 0) throw Error{Code::internal, "a command of the benchmark failed"};
}

awaitable<BenchClock::duration> timed_task(awaitable<void> task) {
  const auto began = BenchClock::now();
  co_await std::move(task);
  co_return BenchClock::now() - began;
}

void bare_run(const std::vector<std::string>& argv) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int result = ::posix_spawnp(&pid, words[0], &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (result != 0) throw SystemError{result, "start " + argv[0]};
  int status = 0;
  check(::waitpid(pid, &status, 0), "wait for " + argv[0]);
  if (status != 0) throw Error{Code::internal, argv[0] + " failed"};
}

void bare_exec() {
  const char* argv[] = {"bash", "-c", "true", nullptr};
  pid_t pid = 0;
  const int result =
      ::posix_spawn(&pid, "/bin/bash", nullptr, nullptr, const_cast<char* const*>(argv), environ);
  if (result != 0) throw SystemError{result, "spawn bash"};
  ::waitpid(pid, nullptr, 0);
}

}  // namespace tb::cli
