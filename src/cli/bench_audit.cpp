// SPDX-License-Identifier: Apache-2.0
// What the audit log costs a request: the part of it that the loop does. The rest is done by a
// thread of its own, after the answer.
#include <filesystem>

#include "api/trail.h"
#include "audit/log.h"
#include "cli/bench_rows.h"

namespace tb::cli {

awaitable<void> audit_rows(Bench& bench) {
  constexpr unsigned kRequests = 100;  // one is too short for the clock
  audit::Log::Settings settings;
  settings.dir = bench.config.state_dir + "/bench-audit";
  std::filesystem::create_directories(settings.dir);
  audit::Log log{settings, {}};
  api::Trail trail{log};
  http::Request request;
  request.id = "0b6f3a523f0f4a3e9a4e51f0c2a5d9b1";
  request.method = "POST";
  request.peer = "127.0.0.1";
  const session::Who who{.user = "u-7",
                         .thread = "thread-1",
                         .session = "7190db9a-e7c4-4a0c-9d53-0c1f3a1e5b42",
                         .request = request.id};
  Samples samples;
  for (unsigned round = 0; round < bench.options.rounds + kWarmup; ++round) {
    const auto began = BenchClock::now();
    for (unsigned i = 0; i < kRequests; ++i) {
      trail.began(request);
      trail.about(who);
      trail.asked_for(who, "grep -v '^#' data.csv | cut -d, -f2 | sort | uniq -c | head -20");
      api::Asked asked{.request = request};
      asked.pattern = "/execute";
      asked.status = 200;
      trail.ended(asked);
    }
    const auto time = BenchClock::now() - began;
    log.flush(10s);
    if (round >= kWarmup) samples.add(time / kRequests);
  }
  if (log.counts().lost != 0) throw Error{Code::internal, "the benchmark lost lines"};
  bench.table.add("audit, one request", std::move(samples));
  co_return;
}

}  // namespace tb::cli
