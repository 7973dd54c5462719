// SPDX-License-Identifier: Apache-2.0
// Rows on what one request takes beside the same command on the bare host, with the settings that
// decide it: shells started ahead or not, a full core or the default's share of one.
#include <time.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "cli/bench_http.h"
#include "cli/bench_rows.h"

namespace tb::cli {
namespace {

constexpr unsigned kDefaultQuota = 25000;
// Before each measurement: what the one before left to be done (a shell that is started ahead, an
// end that is written down) is over, and is no part of its neighbour's time.
constexpr auto kRest = 5ms;

void rest() {
  const timespec pause{0, std::chrono::nanoseconds{kRest}.count()};
  ::nanosleep(&pause, nullptr);
}

awaitable<void> rest_awaiting() {
  asio::steady_timer pause{co_await asio::this_coro::executor, kRest};
  co_await pause.async_wait(asio::use_awaitable);
}

std::string execute_body(const std::string& session, const std::string& command) {
  return "{\"session_id\":\"" + session + "\",\"command\":\"" + command + "\"}";
}

// A built-in of the shell, and a program that it has to start.
struct Case {
  std::string name;
  std::vector<std::string> bare;
  std::string command;
};
std::array<Case, 2> cases_in(const std::string& dir) {
  return {{{"true", {"bash", "-c", "true"}, "true"},
           {"cat f", {"bash", "-c", "cat " + dir + "/f"}, "cat f"}}};
}

struct Kind {
  const char* name;
  unsigned quota;
  std::vector<std::string> settings;
};

void http_rows(Bench& bench, const std::string& dir, const Kind& kind) {
  BenchServer server{bench.config, 1, kind.quota, kind.settings};
  BenchClient client{server.port()};
  const std::string id = client.create_session();
  client.post("/execute", execute_body(id, "seq 100 > f"));
  for (const Case& each : cases_in(dir)) {
    const std::string body = execute_body(id, each.command);
    Samples bare, ours;
    for (unsigned round = 0; round < bench.options.rounds + kWarmup; ++round) {
      rest();
      const auto bare_time = timed([&] { bare_run(each.bare); });
      rest();
      const auto time = timed([&] { client.post("/execute", body); });
      if (round < kWarmup) continue;
      bare.add(bare_time);
      ours.add(time);
    }
    const std::string beside = "bare " + each.name + ", beside " + kind.name;
    bench.table.add(beside, std::move(bare));
    bench.table.add("/execute " + each.name + ", " + kind.name, std::move(ours), beside);
  }
  client.cleanup(id);
}

// One request after the other: the shell of the next may not be there yet.
void back_to_back_rows(Bench& bench) {
  BenchServer server{bench.config, 1, kFullCore};
  BenchClient client{server.port()};
  const std::string id = client.create_session();
  const std::string body = execute_body(id, "true");
  Samples bare, ours;
  for (unsigned round = 0; round < bench.options.rounds + kWarmup; ++round) {
    // Turns of ten, so that most of them follow one of their own kind.
    for (unsigned i = 0; i < 10; ++i) {
      const auto time = timed(bare_exec);
      if (i > 0 && round >= kWarmup) bare.add(time);
    }
    for (unsigned i = 0; i < 10; ++i) {
      const auto time = timed([&] { client.post("/execute", body); });
      if (i > 0 && round >= kWarmup) ours.add(time);
    }
  }
  client.cleanup(id);
  const char* beside = "bare true, back to back";
  bench.table.add(beside, std::move(bare));
  bench.table.add("/execute true, back to back", std::move(ours), beside);
}

awaitable<void> engine_rows(Bench& bench) {
  bench.provider.start_ahead(bench.config.prestart);
  const auto ahead = co_await bench.make();
  bench.provider.start_ahead(0s);
  const auto fresh = co_await bench.make();
  bench.provider.start_ahead(bench.config.prestart);
  Samples bare, with, without;
  for (unsigned round = 0; round < bench.options.rounds + kWarmup; ++round) {
    co_await rest_awaiting();
    const auto bare_time = timed(bare_exec);
    co_await rest_awaiting();
    const auto with_time = co_await timed_task(exec(*ahead, "true"));
    co_await rest_awaiting();
    const auto without_time = co_await timed_task(exec(*fresh, "true"));
    if (round < kWarmup) continue;
    bare.add(bare_time);
    with.add(with_time);
    without.add(without_time);
  }
  const char* beside = "bare true, beside the engine";
  bench.table.add(beside, std::move(bare));
  bench.table.add("engine true, shells ahead", std::move(with), beside);
  bench.table.add("engine true, PRESTART_SECONDS=0", std::move(without), beside);
  co_await bench.provider.destroy(ahead->id());
  co_await bench.provider.destroy(fresh->id());
}

}  // namespace

awaitable<void> request_rows(Bench& bench) {
  const std::string dir = bench.config.state_dir + "/bare";
  std::filesystem::create_directories(dir);
  bare_run({"bash", "-c", "seq 100 > " + dir + "/f"});
  const Kind kinds[] = {
      {"shells ahead", kFullCore, {}},
      {"PRESTART_SECONDS=0", kFullCore, {"PRESTART_SECONDS=0"}},
      {"default CPU_QUOTA", kDefaultQuota, {}},
  };
  for (const Kind& kind : kinds) http_rows(bench, dir, kind);
  back_to_back_rows(bench);
  co_await engine_rows(bench);
}

}  // namespace tb::cli
