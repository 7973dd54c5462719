// SPDX-License-Identifier: Apache-2.0
#include "cli/checkpoints.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "checkpoints/bucket.h"
#include "checkpoints/directory.h"
#include "cli/engine.h"
#include "net/url.h"
#include "os/fd.h"

namespace tb::cli {
namespace {

constexpr std::string_view kScheme = "s3://";
constexpr std::size_t kMaxAuthorities = 4 << 20;

Error wrong(const std::string& name, const std::string& value, const std::string& why) {
  return Error{Code::invalid, "wrong settings:\n  " + name + "=" + value + ": " + why};
}

CheckpointStart read_bucket(const CheckpointConfig& config) {
  CheckpointStart start;
  const std::string place = config.store.substr(kScheme.size());
  const std::size_t slash = std::min(place.find('/'), place.size());
  start.bucket = place.substr(0, slash);
  start.prefix = place.substr(std::min(slash + 1, place.size()));
  if (!start.prefix.empty() && !start.prefix.ends_with('/')) start.prefix += '/';
  if (start.bucket.empty()) throw wrong("WORKSPACE_STORE", config.store, "names no bucket");
  if (config.key_id.empty() || config.secret.empty()) {
    throw wrong("WORKSPACE_STORE", config.store,
                "needs WORKSPACE_S3_KEY_ID and WORKSPACE_S3_SECRET");
  }
  if (!config.ca_file.empty()) start.authorities = os::read_file(config.ca_file, kMaxAuthorities);
  if (!config.endpoint.empty()) net::parse_url(config.endpoint + "/");
  return start;
}

}  // namespace

CheckpointStart prepare_checkpoints(const Config& config) {
  const CheckpointConfig& wanted = config.checkpoints;
  if (wanted.store.empty()) return {};
  if (wanted.store.starts_with(kScheme)) return read_bucket(wanted);
  if (!wanted.store.starts_with('/')) {
    throw wrong("WORKSPACE_STORE", wanted.store,
                "must be the path of a directory, or s3://bucket/prefix");
  }
  CheckpointStart start;
  start.directory = wanted.store + "/threadbox-workspaces";
  std::error_code problem;
  if (!std::filesystem::is_directory(wanted.store, problem)) {
    throw wrong("WORKSPACE_STORE", wanted.store,
                "is no directory: mount it on all workers, and start them then");
  }
  std::filesystem::create_directory(start.directory, problem);
  if (problem) throw wrong("WORKSPACE_STORE", wanted.store, problem.message());
  if (::geteuid() == 0) {
    const unsigned uid = server_uid();
    check(::chmod(start.directory.c_str(), 0700), "chmod " + start.directory);
    check(::chown(start.directory.c_str(), uid, uid), "chown " + start.directory);
  }
  return start;
}

std::unique_ptr<checkpoints::Checkpoints> make_checkpoints(asio::any_io_executor executor,
                                                           const Config& config,
                                                           CheckpointStart start) {
  std::unique_ptr<checkpoints::Objects> objects;
  if (!start.directory.empty()) {
    objects = std::make_unique<checkpoints::Directory>(start.directory);
  } else if (!start.bucket.empty()) {
    const CheckpointConfig& wanted = config.checkpoints;
    checkpoints::Bucket::Settings settings;
    settings.endpoint = wanted.endpoint;
    if (settings.endpoint.empty()) {
      settings.endpoint = "https://s3." + wanted.region + ".amazonaws.com";
    }
    settings.bucket = start.bucket;
    settings.prefix = start.prefix;
    settings.signer = {wanted.region, wanted.key_id, wanted.secret};
    settings.authorities = std::move(start.authorities);
    objects = std::make_unique<checkpoints::Bucket>(executor, std::move(settings));
  }
  if (!objects) return nullptr;
  checkpoints::Checkpoints::Settings settings;
  settings.delay = config.checkpoints.delay;
  return std::make_unique<checkpoints::Checkpoints>(executor, std::move(objects), settings);
}

void add_metrics(Registry& registry, const checkpoints::Checkpoints& checkpoints) {
  using Totals = checkpoints::Checkpoints::Totals;
  const auto add = [&](const char* name, const char* help, auto read) {
    const checkpoints::Checkpoints* from = &checkpoints;
    registry.gauge(name, help).read_by([from, read] {
      return static_cast<double>(read(from->totals()));
    });
  };
  add("threadbox_workspaces_waiting", "Sessions whose files have changed since they were kept.",
      [](const Totals& totals) { return totals.waiting; });
  add("threadbox_workspaces_kept", "Times that files of a session were kept.",
      [](const Totals& totals) { return totals.kept; });
  add("threadbox_workspaces_kept_bytes", "Bytes that were written for that.",
      [](const Totals& totals) { return totals.bytes; });
  add("threadbox_workspaces_failed", "Times that files could not be kept; it is tried again.",
      [](const Totals& totals) { return totals.failed; });
  add("threadbox_workspaces_restored", "Sessions that began with files that were kept before.",
      [](const Totals& totals) { return totals.restored; });
}

}  // namespace tb::cli
