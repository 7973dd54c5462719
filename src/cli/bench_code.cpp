// SPDX-License-Identifier: Apache-2.0
// Rows on code: a call in an interpreter that runs, and an interpreter that is ready.
#include <thread>

#include "cli/bench_http.h"
#include "cli/bench_rows.h"

namespace tb::cli {
namespace {

constexpr std::size_t kPool = 4;
constexpr const char* kBeside = "bare bash -c true, beside code";
constexpr const char* kCall = R"({"code":"x = x + 1\nx"})";

std::string code_path(const std::string& session) { return "/api/sessions/" + session + "/code"; }

// From the request for a context to the answer that its interpreter waits for code.
BenchClock::duration context_time(BenchClient& client, const std::string& session) {
  const std::string path = "/api/sessions/" + session + "/contexts";
  return timed([&] { client.post(path, R"({"language":"python"})"); });
}

Samples context_times(const Config& config, const std::vector<std::string>& settings,
                      unsigned rounds) {
  std::vector<std::string> all{"POOL_REFILL_DELAY_SECONDS=0"};
  all.insert(all.end(), settings.begin(), settings.end());
  const BenchServer server{config, kPool, kFullCore, all};
  BenchClient client{server.port()};
  Samples times;
  for (unsigned round = 0; round < rounds; ++round) {
    client.wait_for_pool(kPool);
    // The pool's interpreters have begun; somebody who had this server before us knows no more.
    std::this_thread::sleep_for(std::chrono::milliseconds{300});
    const std::string session = client.create_session();
    times.add(context_time(client, session));
    client.cleanup(session);
  }
  return times;
}

}  // namespace

awaitable<void> code_rows(Bench& bench) {
  Samples bare, call, throttled;
  for (const unsigned quota : {kFullCore, bench.config.limits.cpu_quota}) {
    const BenchServer server{bench.config, 1, quota};
    BenchClient client{server.port()};
    const std::string session = client.create_session();
    client.post(code_path(session), R"({"code":"x = 0"})");
    for (unsigned round = 0; round < bench.options.rounds + kWarmup; ++round) {
      const auto bare_time = timed(bare_exec);
      const auto time = timed([&] { client.post(code_path(session), kCall); });
      if (round < kWarmup) continue;
      if (quota == kFullCore) bare.add(bare_time);
      (quota == kFullCore ? call : throttled).add(time);
    }
    client.cleanup(session);
  }
  bench.table.add(kBeside, std::move(bare));
  bench.table.add("second Python call over HTTP", std::move(call), kBeside);
  bench.table.add("second Python call over HTTP, CPU_QUOTA=25000", std::move(throttled), kBeside);
  const unsigned rounds = std::max(5u, bench.options.rounds / 10);
  const std::vector<std::string> warm{"WARM_LANGUAGES=python"};
  Samples cold_times = context_times(bench.config, {}, rounds);
  Samples warm_times = context_times(bench.config, warm, rounds);
  bench.table.add("Python context, started by the request", std::move(cold_times));
  bench.table.add("Python context, warm in the pool", std::move(warm_times),
                  "Python context, started by the request");
  co_return;
}

}  // namespace tb::cli
