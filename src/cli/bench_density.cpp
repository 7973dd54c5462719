// SPDX-License-Identifier: Apache-2.0
// Rows on many sandboxes at once.
#include <fstream>
#include <string>

#include "cli/bench_rows.h"

namespace tb::cli {
namespace {

// What the kernel holds for everybody: objects, stacks, page tables, per-CPU data. Other
// programs' own memory is not in it, so that a busy machine disturbs little.
double kernel_kib() {
  std::ifstream file{"/proc/meminfo"};
  double sum = 0;
  std::string key, rest;
  double value = 0;
  while (file >> key >> value) {
    std::getline(file, rest);
    for (const char* counted : {"Slab:", "KernelStack:", "PageTables:", "Percpu:"}) {
      if (key == counted) sum += value;
    }
  }
  return sum;
}

// The share that a process has of what it maps.
double pss_kib(const std::string& pid) {
  std::ifstream file{"/proc/" + pid + "/smaps_rollup"};
  std::string key, rest;
  while (file >> key) {
    double value = 0;
    if (key == "Pss:" && file >> value) return value;
    std::getline(file, rest);
  }
  return 0;
}

// The keeper, its sandboxes, and this process.
double processes_kib(std::uint32_t keeper) {
  const std::string pid = std::to_string(keeper);
  std::ifstream children{"/proc/" + pid + "/task/" + pid + "/children"};
  double sum = pss_kib(pid) + pss_kib("self");
  for (std::string child; children >> child;) sum += pss_kib(child);
  return sum;
}

}  // namespace

awaitable<void> burst_rows(Bench& bench) {
  constexpr unsigned kBurst = 100;
  auto executor = co_await asio::this_coro::executor;
  Samples each;
  std::vector<std::string> ids;
  std::exception_ptr failure;
  TaskGroup tasks{executor, [&](const std::string&, std::exception_ptr error) { failure = error; }};
  Signal done{executor};
  unsigned left = kBurst;
  const auto began = BenchClock::now();
  for (unsigned i = 0; i < kBurst; ++i) {
    tasks.spawn("burst", [&]() -> awaitable<void> {
      const auto sandbox = co_await bench.make();
      co_await exec(*sandbox, "echo hello");
      each.add(BenchClock::now() - began);
      ids.push_back(sandbox->id());
      if (--left == 0) done.notify_all();
    });
  }
  while (left > 0 && !failure) co_await done.wait();
  const double total = std::chrono::duration<double, std::milli>(BenchClock::now() - began).count();
  co_await tasks.close();
  if (failure) std::rethrow_exception(failure);
  bench.table.add("create to first output, one of a burst of 100", std::move(each));
  bench.table.add_figure("burst of 100, all answered", total, "ms");
  for (const std::string& id : ids) co_await bench.provider.destroy(id);
}

awaitable<void> memory_rows(Bench& bench) {
  std::vector<std::shared_ptr<sandbox::Sandbox>> all;
  const jail::Welcome welcome = co_await bench.provider.hello();
  const double before = kernel_kib() + processes_kib(welcome.pid);
  for (unsigned i = 0; i < bench.options.sandboxes; ++i) {
    auto sandbox = co_await bench.make();
    all.push_back(std::move(sandbox));
  }
  const double after = kernel_kib() + processes_kib(welcome.pid);
  bench.table.add_figure("memory of an idle sandbox, of " + std::to_string(all.size()),
                         (after - before) / static_cast<double>(all.size()) / 1024, "MiB");
  unsigned answered = 0;
  Samples each;
  for (const auto& sandbox : all) {
    const auto began = BenchClock::now();
    co_await exec(*sandbox, "true");
    each.add(BenchClock::now() - began);
    ++answered;
  }
  bench.table.add_figure("sandboxes alive at once, each answering", answered, "sandboxes");
  bench.table.add("exec through the engine, among " + std::to_string(all.size()), std::move(each),
                  kBare);
  for (const auto& sandbox : all) co_await bench.provider.destroy(sandbox->id());
}

}  // namespace tb::cli
