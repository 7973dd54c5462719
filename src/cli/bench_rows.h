// SPDX-License-Identifier: Apache-2.0
// What the groups of rows of the benchmark share; each group is a file and adds its rows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/async.h"
#include "cli/bench_table.h"
#include "cli/commands.h"
#include "native/provider.h"

namespace tb::cli {

constexpr unsigned kFullCore = 100000;
constexpr unsigned kWarmup = 10;
constexpr const char* kBare = "bare bash -c true";

// The seed systems' own table; "remote" is over HTTP.
namespace seed {
constexpr Seed kCreateLocal{50, 10}, kCreateRemote{120, 10};
constexpr Seed kCommandLocal{15, 6}, kCommandRemote{45, 6};
constexpr Seed kUploadLocal{80, 10}, kUploadRemote{150, 10};
constexpr Seed kDownloadLocal{75, 10}, kDownloadRemote{140, 10};
constexpr Seed kListLocal{10, 10}, kListRemote{35, 10};
}  // namespace seed

struct Bench {
  const Config& config;
  const BenchOptions& options;
  native::NativeProvider& provider;
  BenchTable table = {};

  // A sandbox of this process, beside those of a server. A server that starts later removes it.
  awaitable<std::shared_ptr<sandbox::Sandbox>> make(unsigned cpu_quota = kFullCore,
                                                    std::vector<std::string> programs = {});
};

// Tells who waits at a terminal what goes on.
void progress(const std::string& text);

awaitable<void> exec(sandbox::Sandbox& sandbox, std::string script);
awaitable<BenchClock::duration> timed_task(awaitable<void> task);

// Starts a program of the host and waits for it; what it prints is dropped.
void bare_run(const std::vector<std::string>& argv);
void bare_exec();  // bash -c true

awaitable<void> exec_rows(Bench& bench);
awaitable<void> create_rows(Bench& bench);
awaitable<void> pooled_create_rows(Bench& bench);
awaitable<void> request_rows(Bench& bench);
awaitable<void> rush_rows(Bench& bench);
awaitable<void> policy_rows(Bench& bench);
awaitable<void> file_rows(Bench& bench);
awaitable<void> list_rows(Bench& bench);
awaitable<void> throughput_rows(Bench& bench);
awaitable<void> stream_rows(Bench& bench);
awaitable<void> burst_rows(Bench& bench);
awaitable<void> memory_rows(Bench& bench);
awaitable<void> code_rows(Bench& bench);
awaitable<void> docker_rows(Bench& bench);

}  // namespace tb::cli
