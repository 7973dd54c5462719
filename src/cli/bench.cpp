// SPDX-License-Identifier: Apache-2.0
// `threadbox bench`: what this machine gives, each row beside the bare host in the same run.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/error.h"
#include "base/id.h"
#include "cli/bench_docker.h"
#include "cli/bench_http.h"
#include "cli/bench_table.h"
#include "cli/commands.h"
#include "cli/engine.h"

extern char** environ;

namespace tb::cli {
namespace {

constexpr unsigned kFullCore = 100000;
constexpr const char* kBare = "bare bash -c true";

void progress(const std::string& text) {
  if (::isatty(2)) std::fprintf(stderr, "bench: %s\n", text.c_str());
}

void bare_exec() {
  const char* argv[] = {"bash", "-c", "true", nullptr};
  pid_t pid = 0;
  const int result =
      ::posix_spawn(&pid, "/bin/bash", nullptr, nullptr, const_cast<char* const*>(argv), environ);
  if (result != 0) throw SystemError{result, "spawn bash"};
  ::waitpid(pid, nullptr, 0);
}

class Bench {
 public:
  Bench(const Config& config, const BenchOptions& options, native::NativeProvider& provider)
      : config_(config), options_(options), provider_(provider) {}

  awaitable<void> run() {
    if (wanted("exec")) co_await exec_rows();
    if (wanted("create")) co_await create_rows();
    if (wanted("http")) http_create_rows();
    if (wanted("burst")) co_await burst_row();
    if (wanted("memory")) co_await memory_rows();
    if (wanted("docker")) co_await docker_rows(table_, options_);
    table_.print(options_.json);
  }

 private:
  bool wanted(const std::string& group) const {
    return options_.only.empty() || group.find(options_.only) != std::string::npos;
  }

  awaitable<std::shared_ptr<sandbox::Sandbox>> make(unsigned cpu_quota = kFullCore) {
    sandbox::SandboxSpec spec;
    spec.id = make_uuid();
    spec.limits.cpu_quota = cpu_quota;
    auto sandbox = co_await provider_.create(std::move(spec));
    co_return sandbox;
  }

  static awaitable<void> exec(sandbox::Sandbox& sandbox, std::string script) {
    sandbox::Command command;
    command.script = std::move(script);
    command.timeout = 30s;
    auto process = co_await sandbox.start(std::move(command));
    co_await process->wait();
  }

  // Bare, engine and HTTP take turns, so that noise hits all alike.
  awaitable<void> exec_rows() {
    progress("exec latency");
    BenchServer server{config_, 1, kFullCore};
    BenchClient client{server.port()};
    const std::string id = text_field(client.post("/create_session", "{}"), "session_id");
    const std::string body = "{\"session_id\":\"" + id + "\",\"command\":\"true\"}";
    const auto full = co_await make();
    const auto throttled = co_await make(25000);
    Samples bare, engine, http, engine_default, echo;
    for (unsigned round = 0; round < options_.rounds + kWarmup; ++round) {
      const bool counts = round >= kWarmup;
      const auto bare_time = timed(bare_exec);
      auto began = BenchClock::now();
      co_await exec(*full, "true");
      const auto engine_time = BenchClock::now() - began;
      const auto http_time = timed([&] { client.post("/execute", body); });
      began = BenchClock::now();
      co_await exec(*throttled, "true");
      const auto default_time = BenchClock::now() - began;
      began = BenchClock::now();
      co_await exec(*full, "echo hello");
      const auto echo_time = BenchClock::now() - began;
      if (!counts) continue;
      bare.add(bare_time);
      engine.add(engine_time);
      http.add(http_time);
      engine_default.add(default_time);
      echo.add(echo_time);
    }
    table_.add(kBare, std::move(bare));
    table_.add("exec through the engine", std::move(engine), kBare);
    table_.add("exec over HTTP keep-alive", std::move(http), kBare);
    table_.add("exec through the engine, echo hello", std::move(echo), kBare);
    table_.add("exec through the engine, CPU_QUOTA=25000", std::move(engine_default), kBare);
    co_await provider_.destroy(full->id());
    co_await provider_.destroy(throttled->id());
  }

  awaitable<void> create_rows() {
    progress("create and teardown");
    Samples bare, create, first_output, teardown;
    for (unsigned round = 0; round < options_.rounds / 3 + kWarmup; ++round) {
      const auto bare_time = timed(bare_exec);
      const auto began = BenchClock::now();
      const auto sandbox = co_await make();
      const auto created = BenchClock::now();
      co_await exec(*sandbox, "echo hello");
      const auto printed = BenchClock::now();
      co_await provider_.destroy(sandbox->id());
      const auto gone = BenchClock::now();
      if (round < kWarmup) continue;
      bare.add(bare_time);
      create.add(created - began);
      first_output.add(printed - began);
      teardown.add(gone - printed);
    }
    const char* beside = "bare, beside create";
    table_.add(beside, std::move(bare));
    table_.add("create, cold", std::move(create), beside);
    table_.add("create to first output, cold", std::move(first_output), beside);
    table_.add("teardown", std::move(teardown), beside);
  }

  void http_create_rows() {
    progress("pooled create over HTTP");
    const unsigned rounds = std::max(options_.rounds / 3, 10u);
    BenchServer server{config_, rounds + kWarmup, kFullCore};
    BenchClient client{server.port()};
    wait_for_pool(client, rounds + kWarmup);
    Samples bare, create, first_output;
    for (unsigned round = 0; round < rounds + kWarmup; ++round) {
      const auto bare_time = timed(bare_exec);
      const auto began = BenchClock::now();
      const std::string id = text_field(client.post("/create_session", "{}"), "session_id");
      const auto created = BenchClock::now();
      client.post("/execute", "{\"session_id\":\"" + id + "\",\"command\":\"echo hello\"}");
      const auto printed = BenchClock::now();
      client.post("/cleanup", "{\"session_id\":\"" + id + "\"}");
      if (round < kWarmup) continue;
      bare.add(bare_time);
      create.add(created - began);
      first_output.add(printed - began);
    }
    const char* beside = "bare, beside pooled create";
    table_.add(beside, std::move(bare));
    table_.add("create, pooled, over HTTP", std::move(create), beside);
    table_.add("create to first output, pooled, over HTTP", std::move(first_output), beside);
  }

  static void wait_for_pool(BenchClient& client, std::size_t size) {
    const std::string full = "\"pool_available\":" + std::to_string(size) + ",";
    const timespec pause{0, 5000000};
    while (client.get("/health").find(full) == std::string::npos) ::nanosleep(&pause, nullptr);
  }

  awaitable<void> burst_row() {
    progress("a burst of 100");
    constexpr unsigned kBurst = 100;
    auto executor = co_await asio::this_coro::executor;
    Samples each;
    std::vector<std::string> ids;
    std::exception_ptr failure;
    TaskGroup tasks{executor,
                    [&](const std::string&, std::exception_ptr error) { failure = error; }};
    Signal done{executor};
    unsigned left = kBurst;
    const auto began = BenchClock::now();
    for (unsigned i = 0; i < kBurst; ++i) {
      tasks.spawn("burst", [&]() -> awaitable<void> {
        const auto sandbox = co_await make();
        co_await exec(*sandbox, "echo hello");
        each.add(BenchClock::now() - began);
        ids.push_back(sandbox->id());
        if (--left == 0) done.notify_all();
      });
    }
    while (left > 0 && !failure) co_await done.wait();
    const double total =
        std::chrono::duration<double, std::milli>(BenchClock::now() - began).count();
    co_await tasks.close();
    if (failure) std::rethrow_exception(failure);
    table_.add("create to first output, one of a burst of 100", std::move(each));
    table_.add_figure("burst of 100, all answered", total, "ms");
    for (const std::string& id : ids) co_await provider_.destroy(id);
  }

  // What the kernel holds for everybody: objects, stacks, page tables, per-CPU data. Other
  // programs' own memory is not in it, so that a busy machine disturbs little.
  static double kernel_kib() {
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
  static double pss_kib(const std::string& pid) {
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
  static double processes_kib(std::uint32_t keeper) {
    const std::string pid = std::to_string(keeper);
    std::ifstream children{"/proc/" + pid + "/task/" + pid + "/children"};
    double sum = pss_kib(pid) + pss_kib("self");
    for (std::string child; children >> child;) sum += pss_kib(child);
    return sum;
  }

  awaitable<void> memory_rows() {
    progress("memory of " + std::to_string(options_.sandboxes) + " idle sandboxes");
    std::vector<std::shared_ptr<sandbox::Sandbox>> all;
    const jail::Welcome welcome = co_await provider_.hello();
    const double before = kernel_kib() + processes_kib(welcome.pid);
    for (unsigned i = 0; i < options_.sandboxes; ++i) {
      auto sandbox = co_await make();
      all.push_back(std::move(sandbox));
    }
    const double after = kernel_kib() + processes_kib(welcome.pid);
    table_.add_figure("memory of an idle sandbox, of " + std::to_string(all.size()),
                      (after - before) / static_cast<double>(all.size()) / 1024, "MiB");
    unsigned answered = 0;
    Samples each;
    for (const auto& sandbox : all) {
      const auto began = BenchClock::now();
      co_await exec(*sandbox, "true");
      each.add(BenchClock::now() - began);
      ++answered;
    }
    table_.add_figure("sandboxes alive at once, each answering", answered, "sandboxes");
    table_.add("exec through the engine, among " + std::to_string(all.size()), std::move(each),
               kBare);
    for (const auto& sandbox : all) co_await provider_.destroy(sandbox->id());
  }

  static constexpr unsigned kWarmup = 10;
  const Config& config_;
  const BenchOptions& options_;
  native::NativeProvider& provider_;
  BenchTable table_;
};

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
      co_await bench.run();
    } catch (...) {
      failure = std::current_exception();
    }
    co_await provider.keeper().stop();
    if (failure) std::rethrow_exception(failure);
    co_return 0;
  });
  std::filesystem::remove_all(config.state_dir);
  return code;
}

}  // namespace tb::cli
