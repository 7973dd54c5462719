// SPDX-License-Identifier: Apache-2.0
// Settings of workers and coordinators (docs/cluster.md).
#include "config_rules.h"

namespace tb::rules {
namespace {

constexpr std::uint64_t kMany = 1000000;
constexpr std::size_t kShortestSecret = 16;

// It opens files of every session: nobody must find it by trying.
std::string apply_secret(Config& config, const std::string& value) {
  if (!value.empty() && value.size() < kShortestSecret) {
    return "must have at least 16 characters: `openssl rand -hex 32` makes a good one";
  }
  config.cluster_secret = value;
  return {};
}

}  // namespace

std::vector<Setting> checkpoint_settings() {
  return {
      {"WORKSPACE_STORE", "(none)",
       "keeps files of threads beyond their server: a directory that all workers share, or "
       "s3://bucket/prefix",
       text([](Config& c, const std::string& v) { c.checkpoints.store = v; })},
      {"WORKSPACE_STORE_DELAY_SECONDS", "2", "of quiet in a session, before its files are kept",
       number(0, 3600, [](Config& c, auto v) { c.checkpoints.delay = std::chrono::seconds{v}; })},
      {"WORKSPACE_S3_ENDPOINT", "(Amazon's)", "of a bucket elsewhere: https://host:port",
       text([](Config& c, const std::string& v) { c.checkpoints.endpoint = v; })},
      {"WORKSPACE_S3_REGION", "us-east-1", "of the bucket",
       text([](Config& c, const std::string& v) { c.checkpoints.region = v; })},
      {"WORKSPACE_S3_KEY_ID", "(none)", "who to be there",
       text([](Config& c, const std::string& v) { c.checkpoints.key_id = v; })},
      {"WORKSPACE_S3_SECRET", "(none)", "and the secret key",
       text([](Config& c, const std::string& v) { c.checkpoints.secret = v; })},
      {"WORKSPACE_S3_CA_FILE", "(system's)", "certificates to trust for that, in PEM",
       text([](Config& c, const std::string& v) { c.checkpoints.ca_file = v; })},
  };
}

std::vector<Setting> cluster_settings() {
  return {
      {"REDIS_HOST", "(none)", "the directory of a cluster; unset: this server stands alone",
       text([](Config& c, const std::string& v) { c.redis_host = v; })},
      {"REDIS_PORT", "6379", "its port",
       number(1, 65535, [](Config& c, auto v) { c.redis_port = static_cast<std::uint16_t>(v); })},
      {"REDIS_USER", "(default)", "who to be there",
       text([](Config& c, const std::string& v) { c.redis_user = v; })},
      {"REDIS_PASSWORD", "(none)", "and the password",
       text([](Config& c, const std::string& v) { c.redis_password = v; })},
      {"REDIS_DB", "0", "the number of its database",
       number(0, 1023, [](Config& c, auto v) { c.redis_database = static_cast<unsigned>(v); })},
      {"REDIS_TLS", "false", "true: speak TLS to it",
       flag([](Config& c, bool v) { c.redis_tls = v; })},
      {"REDIS_CA_FILE", "(system's)", "certificates to trust for that, in PEM",
       text([](Config& c, const std::string& v) { c.redis_ca_file = v; })},
      {"REDIS_SENTINELS", "(none)", "in place of REDIS_HOST: host:port of Sentinels, with commas",
       words([](Config& c, std::vector<std::string> v) { c.redis_sentinels = std::move(v); })},
      {"REDIS_SENTINEL_MASTER", "mymaster", "what they call it",
       text([](Config& c, const std::string& v) { c.redis_master = v; })},
      {"REDIS_SENTINEL_PASSWORD", "(none)", "to ask them",
       text([](Config& c, const std::string& v) { c.redis_sentinel_password = v; })},
      {"REDIS_CLUSTER", "(none)", "in place of REDIS_HOST: host:port of nodes of a Redis Cluster",
       words([](Config& c, std::vector<std::string> v) { c.redis_cluster = std::move(v); })},
      {"ADVERTISE_URL", "http://HOST:PORT", "where others of the cluster reach this worker",
       text([](Config& c, const std::string& v) { c.advertise_url = v; })},
      {"CLUSTER_LEASE_MS", "10000", "silence after which a worker's threads are given to others",
       number(500, 600000, [](Config& c, auto v) { c.cluster_lease = Milliseconds{v}; })},
      {"CLUSTER_OUTAGE_SECONDS", "900", "that sandboxes live on while no worker reaches Redis",
       number(0, kMany, [](Config& c, auto v) { c.cluster_outage = std::chrono::seconds{v}; })},
      {"CLUSTER_SECRET", "(none)", "the same for all of a cluster: how they know each other",
       apply_secret},
      {"WORKERS", "(those in Redis)", "of a coordinator: URLs of workers, with commas",
       words([](Config& c, std::vector<std::string> v) { c.workers = std::move(v); })},
  };
}

}  // namespace tb::rules
