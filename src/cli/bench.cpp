// SPDX-License-Identifier: Apache-2.0
// `threadbox bench`: what this machine gives, each row beside the bare host in the same run.
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "cli/bench_rows.h"
#include "cli/commands.h"
#include "cli/engine.h"

namespace tb::cli {
namespace {

struct Group {
  const char* name;
  awaitable<void> (*add_rows)(Bench&);
};
constexpr Group kGroups[] = {
    {"exec", exec_rows},       {"create", create_rows}, {"http", pooled_create_rows},
    {"request", request_rows}, {"rush", rush_rows},     {"policy", policy_rows},
    {"files", file_rows},      {"list", list_rows},     {"throughput", throughput_rows},
    {"streams", stream_rows},  {"burst", burst_rows},   {"memory", memory_rows},
    {"code", code_rows},       {"docker", docker_rows},
};

awaitable<void> run_groups(Bench& bench) {
  const std::string& only = bench.options.only;
  for (const Group& group : kGroups) {
    if (std::string{group.name}.find(only) == std::string::npos) continue;
    progress(group.name);
    co_await group.add_rows(bench);
  }
}

}  // namespace

int bench(const Config& given, const BenchOptions& options) {
  // A state directory of its own: no other session is disturbed, and nothing stays.
  Config config = given;
  config.state_dir = given.state_dir + "-bench-" + std::to_string(::getpid());
  prepare(config);
  const int code = with_engine(config, [&](native::NativeProvider& provider) -> awaitable<int> {
    Bench bench{config, options, provider};
    std::exception_ptr failure;
    try {
      co_await run_groups(bench);
    } catch (...) {
      failure = std::current_exception();
    }
    co_await provider.keeper().stop();
    if (failure) std::rethrow_exception(failure);
    const bool json = options.json || options.samples;
    const std::string text = json ? bench.table.to_json(options.samples) : bench.table.to_text();
    std::fputs(text.c_str(), stdout);
    co_return 0;
  });
  std::filesystem::remove_all(config.state_dir);
  return code;
}

}  // namespace tb::cli
