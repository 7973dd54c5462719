// SPDX-License-Identifier: Apache-2.0
// Rows on how many commands a second there are when many sessions ask at once.
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <thread>

#include "base/error.h"
#include "cli/bench_http.h"
#include "cli/bench_rows.h"

extern char** environ;

namespace tb::cli {
namespace {

constexpr unsigned kSessions = 50;
constexpr auto kTurn = 1s;

// So many in so long; turns add up.
struct Rate {
  std::uint64_t count = 0;
  BenchClock::duration time{0};
  std::vector<double> turns = {};

  void add(std::uint64_t done, BenchClock::duration took) {
    count += done;
    time += took;
    turns.push_back(static_cast<double>(done) / std::chrono::duration<double>(took).count());
  }
  double per_second() const {
    return static_cast<double>(count) / std::chrono::duration<double>(time).count();
  }
};

pid_t start_bash() {
  const char* argv[] = {"bash", "-c", "true", nullptr};
  pid_t pid = 0;
  const int result =
      ::posix_spawn(&pid, "/bin/bash", nullptr, nullptr, const_cast<char* const*>(argv), environ);
  if (result != 0) throw SystemError{result, "spawn bash"};
  return pid;
}

// Keeps `width` of them running for a turn.
void bare_turn(unsigned width, Rate& rate) {
  const auto began = BenchClock::now();
  std::uint64_t done = 0;
  std::deque<pid_t> running;
  for (;;) {
    const bool over = BenchClock::now() - began >= kTurn;
    if (over && running.empty()) break;
    if (!over && running.size() < width) {
      running.push_back(start_bash());
      continue;
    }
    ::waitpid(running.front(), nullptr, 0);
    running.pop_front();
    ++done;
  }
  rate.add(done, BenchClock::now() - began);
}

// A loop on each core that starts one and waits for it.
void bare_loops(Rate& rate) {
  const auto began = BenchClock::now();
  std::atomic<std::uint64_t> done{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(std::thread::hardware_concurrency(), 1u); ++i) {
    threads.emplace_back([&] {
      while (BenchClock::now() - began < kTurn) {
        bare_exec();
        ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  rate.add(done, BenchClock::now() - began);
}

// Sessions with a kept connection each; one thread that sends again whenever an answer came.
class Crowd {
 public:
  Crowd(std::uint16_t port, unsigned size) {
    for (unsigned i = 0; i < size; ++i) {
      auto client = std::make_unique<BenchClient>(port);
      const std::string id = client->create_session();
      bodies_.push_back("{\"session_id\":\"" + id + "\",\"command\":\"true\"}");
      polled_.push_back({client->descriptor(), POLLIN, 0});
      ids_.push_back(id);
      clients_.push_back(std::move(client));
    }
  }

  void turn(Rate& rate) {
    const auto began = BenchClock::now();
    std::uint64_t done = 0;
    for (std::size_t i = 0; i < clients_.size(); ++i) clients_[i]->send_post(kPath, bodies_[i]);
    std::size_t asked = clients_.size();
    while (asked > 0) {
      check(::poll(polled_.data(), polled_.size(), -1), "poll");
      const bool over = BenchClock::now() - began >= kTurn;
      for (std::size_t i = 0; i < polled_.size(); ++i) {
        if (polled_[i].revents == 0) continue;
        clients_[i]->receive();
        ++done;
        if (over) {
          --asked;
        } else {
          clients_[i]->send_post(kPath, bodies_[i]);
        }
      }
    }
    rate.add(done, BenchClock::now() - began);
  }

  void cleanup() {
    for (std::size_t i = 0; i < clients_.size(); ++i) clients_[i]->cleanup(ids_[i]);
  }

 private:
  static constexpr const char* kPath = "/execute";
  std::vector<std::unique_ptr<BenchClient>> clients_;
  std::vector<std::string> ids_;
  std::vector<std::string> bodies_;
  std::vector<pollfd> polled_;
};

}  // namespace

awaitable<void> throughput_rows(Bench& bench) {
  BenchServer server{bench.config, kSessions, kFullCore};
  BenchClient{server.port()}.wait_for_pool(kSessions);  // else it is filled while we measure
  Crowd crowd{server.port(), kSessions};
  Rate one, many, loops, http, warmup;
  crowd.turn(warmup);
  const unsigned turns = std::clamp(bench.options.rounds / 60, 1u, 20u);
  for (unsigned turn = 0; turn < turns; ++turn) {
    bare_turn(1, one);
    bare_turn(kSessions, many);
    bare_loops(loops);
    crowd.turn(http);
  }
  crowd.cleanup();
  const std::string unit = "commands/s";
  const char* beside = "bare bash -c true, 50 at a time";
  const auto add = [&](const char* name, const Rate& rate, const char* against = "") {
    bench.table.add_figure(name, rate.per_second(), unit, against, rate.turns);
  };
  add("bare bash -c true, one by one", one);
  add("bare bash -c true, a loop on each core", loops);
  add(beside, many);
  add("/execute, 50 sessions", http, beside);
  co_return;
}

}  // namespace tb::cli
