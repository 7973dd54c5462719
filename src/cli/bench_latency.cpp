// SPDX-License-Identifier: Apache-2.0
// Rows on how long one thing takes: a command, a sandbox, a session.
#include "cli/bench_http.h"
#include "cli/bench_rows.h"
#include "policy/policy.h"
#include "session/pool.h"

namespace tb::cli {
namespace {

constexpr const char* kTypical =
    "grep -v '^#' data.csv | cut -d, -f2 | sort | uniq -c | sort -rn > top.txt && head -20 top.txt";

// A pool that is filled once and is not refilled while others are taken.
session::PoolSettings filled_once(std::size_t size) {
  session::PoolSettings settings;
  settings.size = size;
  settings.capacity = 2 * size;
  settings.refill_delay = 1h;
  settings.kind.limits.cpu_quota = kFullCore;
  return settings;
}

awaitable<void> wait_for_pool(const session::Pool& pool) {
  asio::steady_timer pause{co_await asio::this_coro::executor};
  while (pool.ready() < pool.settings().size) {
    pause.expires_after(5ms);
    co_await pause.async_wait(asio::use_awaitable);
  }
}

Samples check_times(const policy::Policy& policy, unsigned rounds) {
  constexpr unsigned kChecks = 100;  // one is too short for the clock
  Samples samples;
  for (unsigned round = 0; round < rounds; ++round) {
    const auto time = timed([&] {
      for (unsigned i = 0; i < kChecks; ++i) {
        if (policy.check(kTypical)) throw Error{Code::internal, "the policy refuses the benchmark"};
      }
    });
    samples.add(time / kChecks);
  }
  return samples;
}

awaitable<void> confined_exec_rows(Bench& bench, std::vector<std::string> programs) {
  const auto open = co_await bench.make();
  const auto confined = co_await bench.make(kFullCore, std::move(programs));
  Samples open_times, confined_times;
  for (unsigned round = 0; round < bench.options.rounds + kWarmup; ++round) {
    const auto open_time = co_await timed_task(exec(*open, "true"));
    const auto confined_time = co_await timed_task(exec(*confined, "true"));
    if (round < kWarmup) continue;
    open_times.add(open_time);
    confined_times.add(confined_time);
  }
  const char* beside = "exec in an open sandbox";
  bench.table.add(beside, std::move(open_times));
  bench.table.add("exec in a strict sandbox", std::move(confined_times), beside);
  co_await bench.provider.destroy(open->id());
  co_await bench.provider.destroy(confined->id());
}

awaitable<void> confined_create_rows(Bench& bench, std::vector<std::string> programs) {
  Samples open_times, confined_times;
  for (unsigned round = 0; round < bench.options.rounds / 3 + kWarmup; ++round) {
    const auto began = BenchClock::now();
    const auto open = co_await bench.make();
    const auto between = BenchClock::now();
    const auto confined = co_await bench.make(kFullCore, programs);
    const auto ended = BenchClock::now();
    co_await bench.provider.destroy(open->id());
    co_await bench.provider.destroy(confined->id());
    if (round < kWarmup) continue;
    open_times.add(between - began);
    confined_times.add(ended - between);
  }
  const char* beside = "create, cold, open";
  bench.table.add(beside, std::move(open_times));
  bench.table.add("create, cold, strict", std::move(confined_times), beside);
}

}  // namespace

// Bare, engine and HTTP take turns, so that noise hits all alike.
awaitable<void> exec_rows(Bench& bench) {
  BenchServer server{bench.config, 1, kFullCore};
  BenchClient client{server.port()};
  const std::string id = client.create_session();
  const std::string body = "{\"session_id\":\"" + id + "\",\"command\":\"true\"}";
  const auto full = co_await bench.make();
  const auto throttled = co_await bench.make(25000);
  Samples bare, engine, http, engine_default, echo;
  for (unsigned round = 0; round < bench.options.rounds + kWarmup; ++round) {
    const auto bare_time = timed(bare_exec);
    const auto engine_time = co_await timed_task(exec(*full, "true"));
    const auto http_time = timed([&] { client.post("/execute", body); });
    const auto default_time = co_await timed_task(exec(*throttled, "true"));
    const auto echo_time = co_await timed_task(exec(*full, "echo hello"));
    if (round < kWarmup) continue;
    bare.add(bare_time);
    engine.add(engine_time);
    http.add(http_time);
    engine_default.add(default_time);
    echo.add(echo_time);
  }
  BenchTable& table = bench.table;
  table.add(kBare, std::move(bare));
  table.add("exec through the engine", std::move(engine), kBare, seed::kCommandLocal);
  table.add("exec over HTTP keep-alive", std::move(http), kBare, seed::kCommandRemote);
  table.add("exec through the engine, echo hello", std::move(echo), kBare, seed::kCommandLocal);
  table.add("exec through the engine, CPU_QUOTA=25000", std::move(engine_default), kBare);
  client.cleanup(id);
  co_await bench.provider.destroy(full->id());
  co_await bench.provider.destroy(throttled->id());
}

awaitable<void> create_rows(Bench& bench) {
  Samples bare, create, first_output, teardown;
  for (unsigned round = 0; round < bench.options.rounds / 3 + kWarmup; ++round) {
    const auto bare_time = timed(bare_exec);
    const auto began = BenchClock::now();
    const auto sandbox = co_await bench.make();
    const auto created = BenchClock::now();
    co_await exec(*sandbox, "echo hello");
    const auto printed = BenchClock::now();
    co_await bench.provider.destroy(sandbox->id());
    const auto gone = BenchClock::now();
    if (round < kWarmup) continue;
    bare.add(bare_time);
    create.add(created - began);
    first_output.add(printed - began);
    teardown.add(gone - printed);
  }
  const char* beside = "bare, beside create";
  bench.table.add(beside, std::move(bare));
  bench.table.add("create, cold", std::move(create), beside);
  bench.table.add("create to first output, cold", std::move(first_output), beside);
  bench.table.add("teardown", std::move(teardown), beside);
}

// The engine's pool is the one that a server has; the store is the server's.
awaitable<void> pooled_create_rows(Bench& bench) {
  const unsigned rounds = std::max(bench.options.rounds / 3, 10u) + kWarmup;
  BenchServer server{bench.config, rounds, kFullCore};
  BenchClient client{server.port()};
  client.wait_for_pool(rounds);
  session::Providers providers;
  providers.add(session::kNative, bench.provider);
  session::Pool pool{co_await asio::this_coro::executor, providers, filled_once(rounds)};
  pool.open();
  co_await wait_for_pool(pool);
  Samples bare, engine, create, first_output;
  for (unsigned round = 0; round < rounds; ++round) {
    const auto bare_time = timed(bare_exec);
    const auto asked = BenchClock::now();
    const auto sandbox = co_await pool.take();
    bench.provider.assign(*sandbox, "bench", 1h);
    const auto given = BenchClock::now();
    co_await bench.provider.destroy(sandbox->id());
    const auto began = BenchClock::now();
    const std::string id = client.create_session();
    const auto created = BenchClock::now();
    client.post("/execute", "{\"session_id\":\"" + id + "\",\"command\":\"echo hello\"}");
    const auto printed = BenchClock::now();
    client.cleanup(id);
    if (round < kWarmup) continue;
    bare.add(bare_time);
    engine.add(given - asked);
    create.add(created - began);
    first_output.add(printed - began);
  }
  co_await pool.close();
  const char* beside = "bare, beside pooled create";
  bench.table.add(beside, std::move(bare));
  bench.table.add("create, pooled, through the engine", std::move(engine), beside,
                  seed::kCreateLocal);
  bench.table.add("create, pooled, over HTTP", std::move(create), beside, seed::kCreateRemote);
  bench.table.add("create to first output, pooled, over HTTP", std::move(first_output), beside);
}

// What the default policy of the HTTP rows costs: its parser, and the kernel's confinement.
awaitable<void> policy_rows(Bench& bench) {
  const policy::Policies policies = policy::Policies::builtin();
  const policy::Policy& strict = *policies.find("strict");
  bench.table.add("policy check of a pipeline of six", check_times(strict, bench.options.rounds));
  co_await confined_exec_rows(bench, strict.programs());
  co_await confined_create_rows(bench, strict.programs());
}

}  // namespace tb::cli
