// SPDX-License-Identifier: Apache-2.0
// Rows on a rush: as many sessions at once as the pool has sandboxes ready.
#include <poll.h>

#include <algorithm>

#include "base/error.h"
#include "cli/bench_http.h"
#include "cli/bench_rows.h"

namespace tb::cli {
namespace {

constexpr unsigned kRush = 100;

std::string session_in(const std::string& answer) {
  constexpr std::string_view kKey = "\"session_id\":\"";
  const std::size_t at = answer.find(kKey);
  if (at == std::string::npos) throw Error{Code::internal, "no session: " + answer};
  const std::size_t begin = at + kKey.size();
  return answer.substr(begin, answer.find('"', begin) - begin);
}

// Connections that all ask for a session at the same moment, and for a command in it once they have
// it.
class Rush {
 public:
  explicit Rush(std::uint16_t port) {
    for (unsigned i = 0; i < kRush; ++i) {
      clients_.push_back(std::make_unique<BenchClient>(port));
      polled_.push_back({clients_.back()->descriptor(), POLLIN, 0});
    }
  }

  // From the moment they ask to the output of each.
  void turn(Samples& first_output) {
    sessions_.assign(kRush, {});
    const auto began = BenchClock::now();
    for (const auto& client : clients_) client->send_post("/create_session", "{}");
    for (unsigned left = kRush; left > 0;) {
      check(::poll(polled_.data(), polled_.size(), -1), "poll");
      for (unsigned i = 0; i < kRush; ++i) {
        if (polled_[i].revents == 0) continue;
        if (!step(i)) continue;
        first_output.add(BenchClock::now() - began);
        --left;
      }
    }
  }

  void cleanup() {
    for (const std::string& session : sessions_) clients_[0]->cleanup(session);
  }

 private:
  // Takes an answer; true: it was the command's.
  bool step(unsigned i) {
    const std::string answer = clients_[i]->receive();
    if (!sessions_[i].empty()) {
      if (answer.find("hello") == std::string::npos) throw Error{Code::internal, answer};
      return true;
    }
    sessions_[i] = session_in(answer);
    clients_[i]->send_post("/execute",
                           "{\"session_id\":\"" + sessions_[i] + "\",\"command\":\"echo hello\"}");
    return false;
  }

  std::vector<std::unique_ptr<BenchClient>> clients_;
  std::vector<pollfd> polled_;
  std::vector<std::string> sessions_;
};

}  // namespace

awaitable<void> rush_rows(Bench& bench) {
  // A turn is over long before the pool is filled again, which would take part of the machine.
  BenchServer server{bench.config, kRush, kFullCore, {"POOL_REFILL_DELAY_SECONDS=1"}};
  BenchClient client{server.port()};
  Rush rush{server.port()};
  Samples bare, first_output;
  const unsigned turns = std::clamp(bench.options.rounds / 50, 1u, 20u);
  for (unsigned turn = 0; turn < turns; ++turn) {
    client.wait_for_pool(kRush);
    for (unsigned i = 0; i < kRush / 2; ++i) bare.add(timed(bare_exec));
    rush.turn(first_output);
    rush.cleanup();
  }
  const char* beside = "bare true, beside the rush";
  bench.table.add(beside, std::move(bare));
  bench.table.add("first output, rush of 100, POOL_SIZE=100", std::move(first_output), beside);
  co_return;
}

}  // namespace tb::cli
