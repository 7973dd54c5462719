// SPDX-License-Identifier: Apache-2.0
// Rows on what it costs to ask who it is: the same request to a server without keys and to one with
// 100,000 of them, in turns.
#include <unistd.h>

#include <ctime>
#include <filesystem>

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

}  // namespace

awaitable<void> auth_rows(Bench& bench) {
  Config guarded = bench.config;
  guarded.state_dir += "-keys";
  prepare_state(guarded);
  const std::string key = make_keys(keys_path(guarded));
  const std::vector<std::string> more = {std::string{"JWT_SECRET="} + kSecret, "JWT_ISSUER=bench",
                                         "JWT_AUDIENCE=bench"};
  Samples without, with_key, with_jwt;
  {
    BenchServer open{bench.config, 0, kFullCore};
    BenchServer asking{guarded, 0, kFullCore, more};
    BenchClient plain{open.port()};
    BenchClient by_key{asking.port()};
    BenchClient by_jwt{asking.port()};
    by_key.use_credential(key);
    by_jwt.use_credential(make_jwt());
    const unsigned rounds = bench.options.rounds * 10;  // each is short
    for (unsigned round = 0; round < rounds + kWarmup; ++round) {
      const auto plain_time = timed([&] { plain.get(kPath); });
      const auto key_time = timed([&] { by_key.get(kPath); });
      const auto jwt_time = timed([&] { by_jwt.get(kPath); });
      if (round < kWarmup) continue;
      without.add(plain_time);
      with_key.add(key_time);
      with_jwt.add(jwt_time);
    }
  }
  const char* beside = "request without API keys";
  bench.table.add(beside, std::move(without));
  bench.table.add("request with one of 100,000 API keys", std::move(with_key), beside);
  bench.table.add("request with a JSON Web Token", std::move(with_jwt), beside);
  bench.table.add("100,000 API keys are loaded", load_times(keys_path(guarded), 5));
  bare_run({"/proc/self/exe", "stop", "--state-dir", guarded.state_dir});
  std::filesystem::remove_all(guarded.state_dir);
  co_return;
}

}  // namespace tb::cli
