// SPDX-License-Identifier: Apache-2.0
// Rows on what a crowd of connections costs those who work: thousands that wait, and hundreds that
// send and read a little now and then.
#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "cli/bench_http.h"
#include "cli/bench_rows.h"
#include "cli/descriptors.h"

namespace tb::cli {
namespace {

constexpr unsigned kIdle = 10'000;
constexpr unsigned kSlow = 200;
constexpr unsigned kTurns = 3;
constexpr std::size_t kBody = 100'000;  // that a slow sender promises
constexpr std::size_t kBit = 64;        // and sends or reads at a time

// Every other one sends a body bit by bit; the others read an answer that way.
class SlowClient {
 public:
  SlowClient(std::uint16_t port, bool sends) : client_(port), sends_(sends) {
    // A small window, so that the answer waits in the server.
    const int small = 4096;
    ::setsockopt(client_.descriptor(), SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    if (sends_) {
      client_.send("POST /execute HTTP/1.1\r\nHost: bench\r\nContent-Length: " +
                   std::to_string(kBody) + "\r\n\r\n");
    } else {
      client_.send("GET /openapi.json HTTP/1.1\r\nHost: bench\r\n\r\n");
    }
  }

  void move() {
    char bit[kBit] = {};
    if (sends_) {
      client_.send({bit, sizeof bit});
    } else {
      ::recv(client_.descriptor(), bit, sizeof bit, MSG_DONTWAIT);
    }
  }

 private:
  BenchClient client_;
  bool sends_;
};

// So many bytes as the server's memory has, by its own words.
double resident(BenchClient& client) {
  const std::string text = client.get("/metrics");
  constexpr std::string_view kName = "\nprocess_resident_memory_bytes ";
  const std::size_t at = text.find(kName);
  double bytes = 0;
  if (at != text.npos) {
    std::from_chars(text.data() + at + kName.size(), text.data() + text.size(), bytes);
  }
  return bytes;
}

struct Crowd {
  Crowd(std::uint16_t port, BenchClient& observer) {
    const double before = resident(observer);
    for (unsigned i = 0; i < kIdle; ++i) {
      idle.emplace_back(port);
      idle.back().get("/healthz");  // one that has been used keeps its buffers
    }
    bytes_each = (resident(observer) - before) / kIdle;
    for (unsigned i = 0; i < kSlow; ++i) slow.emplace_back(port, i % 2 == 0);
  }
  // A few of them, each time.
  void move() {
    for (int i = 0; i < 4; ++i) slow[next++ % slow.size()].move();
  }

  std::vector<BenchClient> idle;
  std::vector<SlowClient> slow;
  double bytes_each = 0;
  std::size_t next = 0;
};

}  // namespace

awaitable<void> connection_rows(Bench& bench) {
  raise_file_limit(kIdle + kSlow);
  BenchServer server{bench.config, 1, kFullCore, {"MAX_CONNECTIONS_PER_ADDRESS=0"}};
  BenchClient client{server.port()};
  const std::string id = client.create_session();
  const std::string body = "{\"session_id\":\"" + id + "\",\"command\":\"true\"}";
  const auto ask = [&] { client.post("/execute", body); };
  const unsigned rounds = std::max(bench.options.rounds / kTurns, 10u);
  Samples alone, crowded;
  double bytes_each = 0;
  for (unsigned turn = 0; turn < kTurns; ++turn) {
    for (unsigned i = 0; i < kWarmup; ++i) ask();
    for (unsigned i = 0; i < rounds; ++i) alone.add(timed(ask));
    Crowd crowd{server.port(), client};
    if (turn == 0) bytes_each = crowd.bytes_each;  // later ones find the memory of the first
    for (unsigned i = 0; i < kWarmup; ++i) ask();
    for (unsigned i = 0; i < rounds; ++i) {
      crowd.move();
      crowded.add(timed(ask));
    }
  }
  client.cleanup(id);
  const double tail = crowded.percentile(99) / alone.percentile(99);
  const char* beside = "/execute, no other connections";
  bench.table.add(beside, std::move(alone));
  bench.table.add("/execute beside 10,000 idle and 200 slow ones", std::move(crowded), beside);
  bench.table.add_figure("p99 beside them, by p99 without", tail, "times");
  bench.table.add_figure("memory of an idle connection", bytes_each / 1024, "KiB");
  co_return;
}

}  // namespace tb::cli
