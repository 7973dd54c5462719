// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>

#include "base/id.h"
#include "cli/commands.h"
#include "cli/engine.h"

namespace tb::cli {
namespace {

void copy_out(const sandbox::Process& process, sandbox::Stream stream, int to) {
  std::uint64_t at = 0;
  for (;;) {
    const std::string part = process.read_output(stream, at, 1 << 20);
    if (part.empty()) return;
    if (::write(to, part.data(), part.size()) < 0) return;
    at += part.size();
  }
}

awaitable<int> run_once(const Config& config, const RunOptions& options,
                        native::NativeProvider& provider) {
  sandbox::SandboxSpec spec;
  spec.id = make_uuid();
  spec.environment = config.environment;
  spec.limits = config.limits;
  spec.idle = 1h;
  const std::string id = spec.id;
  const auto sandbox = co_await provider.create(std::move(spec));
  sandbox::Command command;
  command.script = options.command;
  command.timeout = options.timeout > 0
                        ? Milliseconds{static_cast<std::int64_t>(options.timeout * 1000)}
                        : Milliseconds{config.command_timeout};
  const auto process = co_await sandbox->start(std::move(command));
  const sandbox::Exit exit = co_await process->wait();
  copy_out(*process, sandbox::Stream::out, 1);
  copy_out(*process, sandbox::Stream::err, 2);
  if (exit.cause != sandbox::Cause::exited) {
    std::fprintf(stderr, "threadbox: ended by %s\n",
                 std::string{sandbox::name_of(exit.cause)}.c_str());
  }
  co_await provider.destroy(id);
  co_return exit.code;
}

}  // namespace

int run(const Config& config, const RunOptions& options) {
  const bool started = prepare(config);
  drop_privileges(server_uid());  // the output directory is the server's: no root in there
  return with_engine(config, [&](native::NativeProvider& provider) -> awaitable<int> {
    int code = 1;
    std::exception_ptr failure;
    try {
      code = co_await run_once(config, options, provider);
    } catch (...) {
      failure = std::current_exception();
    }
    if (started) co_await provider.keeper().stop();  // it was there for this command only
    if (failure) std::rethrow_exception(failure);
    co_return code;
  });
}

}  // namespace tb::cli
