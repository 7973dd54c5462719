// SPDX-License-Identifier: Apache-2.0
// Rows on what it costs to ask who it is. The same request goes to a server without keys and to one
// that knows 100,000 of them, block by block: what was the first in one round is the last in the
// next one, so that neither finds the machine warmer than the other. Two processes of one program
// are never equally fast, so a second server without keys shows how much of the difference that
// is. Two rows have no second process in them: one server asked with and without a key where it
// needs none, and the guard by itself.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "api/rules.h"
#include "auth/authenticator.h"
#include "auth/base64url.h"
#include "auth/hmac.h"
#include "auth/keyring.h"
#include "cli/bench_http.h"
#include "cli/bench_rows.h"
#include "cli/engine.h"

namespace tb::cli {
namespace {

constexpr int kKeys = 100'000;
constexpr const char* kPath = "/api/registry";
constexpr const char* kOpenPath = "/readyz";  // the same answer, whoever asks
constexpr unsigned kBlock = 25;               // requests in a row over one connection
constexpr unsigned kTogether = 100;           // calls of the guard that are timed as one
constexpr const char* kSecret = "a secret for the benchmark of thirty-two bytes or more";

// Returns one from the middle.
std::string make_keys(const std::string& path) {
  std::string chosen;
  auth::KeyTable table{path};
  table.together([&] {
    for (int i = 0; i < kKeys; ++i) {
      auth::Key key;
      key.tenant = "tenant-" + std::to_string(i % 1000);
      std::string text = table.create(key);
      if (i == kKeys / 2) chosen = std::move(text);
    }
  });
  if (::geteuid() == 0) {
    check(::chown(path.c_str(), server_uid(), server_uid()), "chown " + path);
  }
  return chosen;
}

std::string make_jwt() {
  const std::string claims = R"({"iss":"bench","aud":"bench","tenant":"t","exp":)" +
                             std::to_string(std::time(nullptr) + 86400) + "}";
  const std::string text = auth::base64url(R"({"alg":"HS256"})") + "." + auth::base64url(claims);
  return text + "." + auth::base64url(auth::hmac_sha256(kSecret, text));
}

Samples load_times(const std::string& path, unsigned rounds) {
  Samples samples;
  for (unsigned round = 0; round < rounds; ++round) {
    samples.add(timed([&] {
      const auth::Keyring keys{path};
      if (keys.size() != kKeys) throw Error{Code::internal, "keys of the benchmark are missing"};
    }));
  }
  return samples;
}

// One connection that is kept, and what was measured over it.
struct Asker {
  Asker(std::uint16_t port, const char* asked_path, const std::string& credential = {})
      : client(port), path(asked_path) {
    if (!credential.empty()) client.use_credential(credential);
  }
  void ask_block(bool counts) {
    Samples block;
    for (unsigned i = 0; i < kBlock; ++i) block.add(timed([&] { client.get(path); }));
    if (!counts) return;
    medians.push_back(block.percentile(50));
    for (const double micros : block.micros()) {
      samples.add(std::chrono::nanoseconds{static_cast<std::int64_t>(micros * 1000)});
    }
  }

  BenchClient client;
  const char* path;
  Samples samples = {};
  std::vector<double> medians = {};  // of the blocks
};

// In turns, each round in the other direction.
void ask_in_turns(const std::vector<Asker*>& askers, unsigned rounds) {
  constexpr unsigned kColdRounds = 4;
  std::vector<Asker*> order = askers;
  for (unsigned round = 0; round < rounds + kColdRounds; ++round) {
    for (Asker* asker : order) asker->ask_block(round >= kColdRounds);
    std::reverse(order.begin(), order.end());
  }
}

// By the medians of all; and of each round, for who wants to see how they scatter.
void add_difference(Bench& bench, const char* name, const Asker& less, const Asker& more) {
  std::vector<double> rounds;
  for (std::size_t i = 0; i < less.medians.size(); ++i) {
    rounds.push_back(more.medians[i] - less.medians[i]);
  }
  const double micros = more.samples.percentile(50) - less.samples.percentile(50);
  bench.table.add_figure(name, micros, "us", {}, std::move(rounds));
}

// What a request meets before its handler: header, SHA-256, table, rules.
awaitable<Samples> guard_times(auth::Authenticator& guard, const std::string& credential,
                               unsigned rounds) {
  http::Request request;
  request.method = "GET";
  request.path = request.target = kPath;
  request.peer = "127.0.0.1";
  request.headers.add("Host", "127.0.0.1:5000");
  request.headers.add("Authorization", "Bearer " + credential);
  const api::Rule rule = api::rule_of(request.method, request.path);
  Samples samples;
  for (unsigned round = 0; round < rounds; ++round) {
    const auto began = BenchClock::now();
    for (unsigned i = 0; i < kTogether; ++i) {
      const auth::Principal who = co_await guard.authenticate(request, false);
      api::check_rule(rule, who);
    }
    samples.add((BenchClock::now() - began) / kTogether);
  }
  co_return samples;
}

awaitable<void> add_guard_rows(Bench& bench, const Config& guarded, const std::string& key) {
  auth::Authenticator::Settings settings;
  settings.keys = keys_path(guarded);
  settings.secret = guarded.state_dir + "/bench.secret";
  auth::JwtRules rules;
  rules.issuer = rules.audience = "bench";
  auth::JwksSettings secret;
  secret.secret = kSecret;
  settings.jwt = auth::JwtSettings{std::move(secret), std::move(rules)};
  auth::Authenticator guard{co_await asio::this_coro::executor, std::move(settings)};
  const unsigned rounds = bench.options.rounds * 10;
  Samples by_key = co_await guard_times(guard, key, rounds);
  bench.table.add("the guard alone, one of 100,000 API keys", std::move(by_key));
  const std::string token = make_jwt();
  Samples by_jwt = co_await guard_times(guard, token, rounds);
  bench.table.add("the guard alone, a JSON Web Token", std::move(by_jwt));
  co_await guard.close();
}

void add_request_rows(Bench& bench, const Config& guarded, const std::string& key) {
  const std::vector<std::string> more = {std::string{"JWT_SECRET="} + kSecret, "JWT_ISSUER=bench",
                                         "JWT_AUDIENCE=bench"};
  Config second = bench.config;
  second.state_dir += "-second";
  BenchServer open{bench.config, 0, kFullCore};
  BenchServer open_too{second, 0, kFullCore};
  BenchServer asking{guarded, 0, kFullCore, more};
  Asker plain{open.port(), kPath};
  Asker other{open_too.port(), kPath};
  Asker by_key{asking.port(), kPath, key};
  Asker by_jwt{asking.port(), kPath, make_jwt()};
  Asker stranger{asking.port(), kOpenPath};
  Asker known{asking.port(), kOpenPath, key};
  const unsigned rounds = std::max(4u, bench.options.rounds * 10 / kBlock);
  ask_in_turns({&plain, &by_key, &other, &by_jwt}, rounds);
  ask_in_turns({&stranger, &known}, rounds);
  add_difference(bench, "an API key adds to a request", plain, by_key);
  add_difference(bench, "a JSON Web Token adds to a request", plain, by_jwt);
  add_difference(bench, "another server without keys adds", plain, other);
  add_difference(bench, "an API key adds, one server, open route", stranger, known);
  const char* beside = "request without API keys";
  bench.table.add(beside, std::move(plain.samples));
  bench.table.add("request to another server without keys", std::move(other.samples), beside);
  bench.table.add("request with one of 100,000 API keys", std::move(by_key.samples), beside);
  bench.table.add("request with a JSON Web Token", std::move(by_jwt.samples), beside);
}

// While it lives, we and what we start share one processor: where the scheduler puts a server is
// worth 40 us of a request, and that must not be taken for the guard's.
class OneProcessor {
 public:
  OneProcessor() {
    ::sched_getaffinity(0, sizeof before_, &before_);
    for (int number = 0; number < CPU_SETSIZE; ++number) {
      if (!CPU_ISSET(number, &before_)) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(number, &one);
      ::sched_setaffinity(0, sizeof one, &one);
      return;
    }
  }
  ~OneProcessor() { ::sched_setaffinity(0, sizeof before_, &before_); }
  OneProcessor(const OneProcessor&) = delete;

 private:
  cpu_set_t before_{};
};

void remove_state(const std::string& state_dir) {
  bare_run({"/proc/self/exe", "stop", "--state-dir", state_dir});
  std::filesystem::remove_all(state_dir);
}

}  // namespace

awaitable<void> auth_rows(Bench& bench) {
  Config guarded = bench.config;
  guarded.state_dir += "-keys";
  prepare_state(guarded);
  const std::string key = make_keys(keys_path(guarded));
  {
    const OneProcessor together;
    add_request_rows(bench, guarded, key);
  }
  co_await add_guard_rows(bench, guarded, key);
  bench.table.add("100,000 API keys are loaded", load_times(keys_path(guarded), 5));
  remove_state(guarded.state_dir);
  remove_state(bench.config.state_dir + "-second");
}

}  // namespace tb::cli
