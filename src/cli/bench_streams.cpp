// SPDX-License-Identifier: Apache-2.0
// Rows on output that is followed: how much of it in a second, and how late a line is.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "cli/bench_http.h"
#include "cli/bench_rows.h"
#include "cli/bench_stream_client.h"

extern char** environ;

namespace tb::cli {
namespace {

constexpr std::size_t kLine = 80;
constexpr std::size_t kSize = 60000000;  // less than what is kept of a stream by default
constexpr int kTurns = 9;
constexpr const char* kCat = "{\"command\":\"cat data\"}";
// A line with the time at which it is written, each few milliseconds.
constexpr const char* kTicker =
    "import time\n"
    "for _ in range(200):\n"
    "    time.sleep(0.004)\n"
    "    print(time.monotonic_ns(), flush=True)\n";

// Lines of text, so that a stream of JSON has something to escape and nothing to replace.
std::string some_text() {
  std::string text(kSize, '\n');
  std::uint32_t dice = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i % kLine == kLine - 1) continue;
    dice = dice * 1664525 + 1013904223;
    text[i] = static_cast<char>(' ' + (dice >> 24) % 95);
  }
  return text;
}

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// How late the lines are: the numbers in a stream that may be a time of just now; what is around
// them, frames or JSON, is passed over.
class Lateness {
 public:
  void take(std::string_view bytes) {
    const std::uint64_t now = now_ns();
    for (const char c : bytes) {
      if (c >= '0' && c <= '9') {
        number_ = number_ * 10 + static_cast<std::uint64_t>(c - '0');
        continue;
      }
      if (number_ < now && now - number_ < 1000000000) {
        samples.add(std::chrono::nanoseconds{now - number_});
      }
      number_ = 0;
    }
  }
  Samples samples;

 private:
  std::uint64_t number_ = 0;
};

struct Way {
  const char* name;
  void (*follow)(BenchClient& client, const std::string& session, const std::string& start,
                 const TakeBytes& take);
};
constexpr Way kWays[] = {
    {"WebSocket", follow_websocket},
    {"server-sent events", follow_events},
    {"lines of JSON", follow_lines},
    {"pages by offset", follow_pages},
};
constexpr std::size_t kPages = 3;

double megabytes_per_second(const Samples& samples) {
  return static_cast<double>(kSize) / samples.percentile(50);
}

awaitable<void> speed_rows(Bench& bench, const BenchServer& server) {
  const std::string text = some_text();
  const std::string path = bench.config.state_dir + "/text";
  std::ofstream{path} << text;
  const std::vector<std::string> bare = {"sh", "-c", "cat " + path + " | cat > /dev/null"};
  Samples bare_times;
  Samples times[std::size(kWays)];
  for (int turn = 0; turn < kTurns; ++turn) {
    // Anew for each turn: what was printed is kept as long as its session.
    BenchClient client{server.port()};
    const std::string session = client.create_session();
    client.upload(session, "data", text);
    bare_times.add(timed([&] { bare_run(bare); }));
    for (std::size_t i = 0; i < std::size(kWays); ++i) {
      std::uint64_t got = 0;
      const TakeBytes count = [&](std::string_view bytes) { got += bytes.size(); };
      BenchClient connection{server.port()};
      times[i].add(timed([&] { kWays[i].follow(connection, session, kCat, count); }));
      if (got < kSize) throw Error{Code::internal, "a stream of output was cut"};
    }
    client.cleanup(session);
  }
  std::filesystem::remove(path);
  const char* beside = "bare cat file | cat > /dev/null";
  const std::string unit = "MB/s";
  bench.table.add_figure(beside, megabytes_per_second(bare_times), unit);
  for (std::size_t i = 0; i < std::size(kWays); ++i) {
    const std::string name = std::string{"output through "} + kWays[i].name;
    bench.table.add_figure(name, megabytes_per_second(times[i]), unit, beside);
  }
  co_return;
}

// The same program on the host, read from a pipe. Empty: there is no python3.
Samples bare_lateness(const std::string& path) {
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC), "pipe");
  const os::Fd reading{ends[0]};
  os::Fd writing{ends[1]};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, writing.get(), 1);
  const char* argv[] = {"python3", path.c_str(), nullptr};
  pid_t pid = 0;
  const int result =
      ::posix_spawnp(&pid, argv[0], &actions, nullptr, const_cast<char* const*>(argv), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (result != 0) return {};
  writing.reset();
  Lateness lateness;
  char buffer[4096];
  ssize_t n;
  while ((n = ::read(reading.get(), buffer, sizeof buffer)) > 0) {
    lateness.take({buffer, static_cast<std::size_t>(n)});
  }
  ::waitpid(pid, nullptr, 0);
  return std::move(lateness.samples);
}

awaitable<void> lateness_rows(Bench& bench, const BenchServer& server) {
  const std::string path = bench.config.state_dir + "/ticker.py";
  std::ofstream{path} << kTicker;
  Samples bare = bare_lateness(path);
  std::filesystem::remove(path);
  if (bare.empty()) {
    progress("no python3 here that could tell the time: no rows on how late a line is");
    co_return;
  }
  const char* beside = "bare line through a pipe";
  bench.table.add(beside, std::move(bare));
  BenchClient client{server.port()};
  const std::string session = client.create_session();
  client.upload(session, "ticker.py", kTicker);
  for (std::size_t i = 0; i < kPages; ++i) {
    Lateness lateness;
    const TakeBytes take = [&](std::string_view bytes) { lateness.take(bytes); };
    BenchClient connection{server.port()};
    kWays[i].follow(connection, session, "{\"command\":\"python3 ticker.py\"}", take);
    if (lateness.samples.empty()) throw Error{Code::internal, "no line came"};
    const std::string name = std::string{"line through "} + kWays[i].name;
    bench.table.add(name, std::move(lateness.samples), beside);
  }
  client.cleanup(session);
}

}  // namespace

awaitable<void> stream_rows(Bench& bench) {
  BenchServer server{bench.config, 1, kFullCore};
  co_await speed_rows(bench, server);
  co_await lateness_rows(bench, server);
}

}  // namespace tb::cli
