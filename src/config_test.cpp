// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "config_sources.h"

namespace tb {
namespace {

// The environment has these settings and no others while it lives.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& values) {
    for (const Setting& setting : settings()) {
      const char* old = std::getenv(setting.name.c_str());
      saved_[setting.name] = old ? std::optional<std::string>{old} : std::nullopt;
      ::unsetenv(setting.name.c_str());
    }
    for (const auto& [name, value] : values) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : saved_) {
      if (value) {
        ::setenv(name.c_str(), value->c_str(), 1);
      } else {
        ::unsetenv(name.c_str());
      }
    }
  }

 private:
  std::map<std::string, std::optional<std::string>> saved_;
};

Config read(const std::map<std::string, std::string>& values) {
  Environment environment{values};
  return read_config();
}

// What it complains about; empty when it does not.
std::string complaint(const std::map<std::string, std::string>& values) {
  try {
    read(values);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
}

TEST(Config, HasTheDefaultsThatItShows) {
  const Config config = read({});
  EXPECT_EQ(config.host, "127.0.0.1");
  EXPECT_EQ(config.port, 5000);
  EXPECT_FALSE(config.allow_no_auth);
  EXPECT_EQ(config.worker_id, "standalone");
  EXPECT_EQ(config.environment, "host");
  EXPECT_EQ(config.pool_size, 10u);
  EXPECT_EQ(config.max_pool_size, 80u);
  EXPECT_EQ(config.limits.memory, 256_MiB);
  EXPECT_EQ(config.limits.disk, 500_MiB);
  EXPECT_EQ(config.limits.cpu_quota, 25000u);
  EXPECT_EQ(config.limits.pids, 256u);
  EXPECT_EQ(config.session_timeout, 30min);
  EXPECT_EQ(config.command_timeout, 30s);
  EXPECT_EQ(config.output.inline_bytes, 1_MiB);
  EXPECT_EQ(config.output.stored, 64_MiB);
  EXPECT_EQ(config.keeper_grace, 600s);
  EXPECT_EQ(config.log_level, LogLevel::info);
  EXPECT_FALSE(config.state_dir.empty());
}

TEST(Config, EveryShownDefaultIsAGoodValueAndChangesNothing) {
  const Config plain = read({});
  std::set<std::string> names;
  for (const Setting& setting : settings()) {
    EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
    EXPECT_FALSE(setting.meaning.empty()) << setting.name;
    if (setting.shown_default.starts_with('(')) continue;  // in words
    Config config = plain;
    EXPECT_EQ(setting.apply(config, setting.shown_default), "") << setting.name;
    EXPECT_EQ(config.host, plain.host);
    EXPECT_EQ(config.port, plain.port);
    EXPECT_EQ(config.limits.memory, plain.limits.memory);
    EXPECT_EQ(config.limits.disk, plain.limits.disk);
    EXPECT_EQ(config.max_pool_size, plain.max_pool_size);
    EXPECT_EQ(config.output.stored, plain.output.stored);
    EXPECT_EQ(config.session_timeout, plain.session_timeout);
  }
}

TEST(Config, GoodValuesAreTaken) {
  const Config config = read({{"HOST", "127.0.0.2"},
                              {"PORT", "0"},
                              {"STATE_DIR", "/tmp/x"},
                              {"POOL_SIZE", "0"},
                              {"MAX_POOL_SIZE", "1"},
                              {"MEMORY_LIMIT", "1g"},
                              {"CPU_QUOTA", "100000"},
                              {"PIDS_LIMIT", "16"},
                              {"MAX_WORKSPACE_SIZE_MB", "16"},
                              {"SESSION_TIMEOUT_MINUTES", "1"},
                              {"DEFAULT_COMMAND_TIMEOUT", "86400"},
                              {"OUTPUT_INLINE_KB", "1"},
                              {"OUTPUT_LIMIT_MB", "1"},
                              {"LOG_LEVEL", "DeBuG"},
                              {"LOG_JSON", "1"}});
  EXPECT_EQ(config.host, "127.0.0.2");
  EXPECT_EQ(config.port, 0);
  EXPECT_EQ(config.state_dir, "/tmp/x");
  EXPECT_EQ(config.pool_size, 0u);
  EXPECT_EQ(config.max_pool_size, 1u);
  EXPECT_EQ(config.limits.memory, 1_GiB);
  EXPECT_EQ(config.limits.cpu_quota, 100000u);
  EXPECT_EQ(config.command_timeout, 24h);
  EXPECT_EQ(config.log_level, LogLevel::debug);
  EXPECT_TRUE(config.log_json);
}

TEST(Config, SizesAreAsDockerWritesThem) {
  const struct {
    const char* text;
    Bytes bytes;
  } rows[] = {{"256m", 256_MiB},    {"256M", 256_MiB},     {"1g", 1_GiB},      {"2G", 2_GiB},
              {"16777216", 16_MiB}, {"16777216b", 16_MiB}, {"32768k", 32_MiB}, {"1024g", 1024_GiB}};
  for (const auto& row : rows) {
    EXPECT_EQ(read({{"MEMORY_LIMIT", row.text}}).limits.memory, row.bytes) << row.text;
  }
}

TEST(Config, BadValuesAreRefusedByName) {
  const struct {
    const char* name;
    const char* value;
  } rows[] = {
      {"PORT", "65536"},
      {"PORT", "-1"},
      {"PORT", "x"},
      {"PORT", "5000 "},
      {"PORT", " 5000"},
      {"PORT", "+5"},
      {"PORT", "0x10"},
      {"PORT", "5e3"},
      {"PORT", "99999999999999999999999"},
      {"ALLOW_NO_AUTH", "2"},
      {"ALLOW_NO_AUTH", "true"},
      {"POOL_SIZE", "-1"},
      {"POOL_SIZE", "1000001"},
      {"MAX_POOL_SIZE", "0"},
      {"MEMORY_LIMIT", "15m"},
      {"MEMORY_LIMIT", "0"},
      {"MEMORY_LIMIT", "256"},
      {"MEMORY_LIMIT", "256mb"},
      {"MEMORY_LIMIT", "1.5g"},
      {"MEMORY_LIMIT", "-1m"},
      {"MEMORY_LIMIT", "m"},
      {"MEMORY_LIMIT", "1025g"},
      {"MEMORY_LIMIT", "18446744073709551615g"},
      {"MEMORY_LIMIT", "17179869185g"},
      {"CPU_QUOTA", "999"},
      {"CPU_QUOTA", "100001"},
      {"PIDS_LIMIT", "15"},
      {"PIDS_LIMIT", "32769"},
      {"MAX_WORKSPACE_SIZE_MB", "15"},
      {"SESSION_TIMEOUT_MINUTES", "0"},
      {"DEFAULT_COMMAND_TIMEOUT", "0"},
      {"DEFAULT_COMMAND_TIMEOUT", "86401"},
      {"OUTPUT_INLINE_KB", "0"},
      {"OUTPUT_LIMIT_MB", "0"},
      {"KEEPER_GRACE", "0"},
      {"ARTIFACT_SESSION_MB", "0"},
      {"ARTIFACT_TOTAL_MB", "0"},
      {"ARTIFACT_DAYS", "3651"},
      {"SESSION_LOG_KB", "3"},
      {"SESSION_LOG_DAYS", "0"},
      {"VOLUME_SIZE_MB", "0"},
      {"VOLUME_SIZE_MB", "10241"},
      {"MAX_VOLUME_SIZE_MB", "1023"},
      {"MAX_VOLUMES_PER_USER", "10001"},
      {"LOG_LEVEL", "loud"},
      {"LOG_JSON", "yes"},
  };
  for (const auto& row : rows) {
    EXPECT_NE(complaint({{row.name, row.value}}).find(row.name), std::string::npos)
        << row.name << "=" << row.value;
  }
}

TEST(Config, WhatGuardsThePortIsRefusedByName) {
  const std::pair<const char*, const char*> rows[] = {
      {"TLS_CERT_FILE", "/a"},
      {"TLS_KEY_FILE", "/a"},
      {"TLS_CLIENT_CA_FILE", "/a"},
      {"TLS_CLIENT_CERTS", "optional"},
      {"TLS_CLIENT_CERTS", "no"},
      {"TLS_HSTS_SECONDS", "63072001"},
      {"MAX_CONNECTIONS", "15"},
      {"MAX_CONNECTIONS", "1000001"},
      {"MAX_CONNECTIONS_PER_ADDRESS", "1000001"},
  };
  for (const auto& [name, value] : rows) {
    EXPECT_NE(complaint({{name, value}}).find(name), std::string::npos) << name << "=" << value;
  }
  EXPECT_EQ(complaint({{"TLS_CERT_FILE", "/a"}, {"TLS_KEY_FILE", "/b"}}), "");
}

TEST(Config, ProvidersMayHaveStandIns) {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(read({}).provider_aliases, (Pairs{{"docker", "native"}, {"e2b", "native"}}));
  EXPECT_EQ(read({{"PROVIDER_ALIASES", "none"}}).provider_aliases, Pairs{});
  EXPECT_EQ(read({{"PROVIDER_ALIASES", "e2b=docker, x=y"}}).provider_aliases,
            (Pairs{{"e2b", "docker"}, {"x", "y"}}));
  for (const char* wrong : {"e2b", "=native", "e2b=", "a=b,c"}) {
    EXPECT_NE(complaint({{"PROVIDER_ALIASES", wrong}}).find("PROVIDER_ALIASES"), std::string::npos);
  }
  EXPECT_EQ(read({{"SANDBOX_PROVIDER", "docker"}}).provider, "docker");
}

TEST(Config, WarmLanguagesAreThoseThatHaveInterpreters) {
  EXPECT_EQ(read({{"WARM_LANGUAGES", "python, javascript"}}).warm,
            (std::vector<std::string>{"python", "javascript"}));
  EXPECT_NE(complaint({{"WARM_LANGUAGES", "python,cobol"}}).find("WARM_LANGUAGES"),
            std::string::npos);
}

TEST(Config, AllThatIsWrongIsSaidAtOnce) {
  const std::string text = complaint({{"PORT", "x"}, {"MEMORY_LIMIT", "1"}, {"LOG_LEVEL", "loud"}});
  for (const char* name : {"PORT=x", "MEMORY_LIMIT=1", "LOG_LEVEL=loud"}) {
    EXPECT_NE(text.find(name), std::string::npos) << text;
  }
}

TEST(Config, EmptyIsAsAbsent) { EXPECT_EQ(read({{"PORT", ""}, {"HOST", ""}}).port, 5000); }

TEST(Config, ThePoolFitsIntoItsCapacity) {
  EXPECT_NE(complaint({{"POOL_SIZE", "81"}}), "");
  EXPECT_EQ(complaint({{"POOL_SIZE", "80"}}), "");
  EXPECT_NE(complaint({{"MAX_POOL_SIZE", "5"}}), "");
}

TEST(Config, OnlyLoopbackIsThisMachineAlone) {
  for (const char* host :
       {"0.0.0.0", "::", "192.168.1.1", "example.org", "1127.0.0.1", "128.0.0.1", "::ffff:10.0.0.1",
        "127.example.org", "127.0.0.1.example.org", "127.0.0.1 ", "127.1", ""}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
}

}  // namespace
}  // namespace tb
