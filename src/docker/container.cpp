// SPDX-License-Identifier: Apache-2.0
#include "docker/container.h"

#include <boost/json.hpp>
#include <cstdio>

#include "base/sha256.h"
#include "docker/engine.h"
#include "docker/sandbox.h"
#include "guest/carrier_wire.h"
#include "jail/guest_image.h"

namespace tb::docker {
namespace {

constexpr const char* kUser = "1000:1000";
constexpr unsigned kOurProcesses = 32;  // PID 1, carriers, helpers, and the engine's own threads
constexpr std::uint64_t kTmpBytes = 64 << 20;

json::object volume(const std::string& name, const char* target, bool read_only) {
  return {{"Type", "volume"}, {"Source", name}, {"Target", target}, {"ReadOnly", read_only}};
}

json::array with_door(json::array mounts, const std::string& dir) {
  if (!dir.empty()) {
    mounts.push_back(json::object{{"Type", "bind"},
                                  {"Source", dir},
                                  {"Target", guest::carrier::kDoorDir},
                                  {"ReadOnly", true}});
  }
  return mounts;
}

std::string tmpfs(const char* more) {
  return "rw,exec,nosuid,nodev,size=" + std::to_string(kTmpBytes) + "," + more;
}

}  // namespace

json::object describe_container(const ContainerSpec& spec) {
  json::object workspace = volume(spec.workspace_volume, kWorkspace, false);
  workspace["VolumeOptions"] = json::object{{"Labels", spec.labels}};
  json::object guest = volume(spec.guest_volume, kGuestDir, true);
  guest["VolumeOptions"] = json::object{{"NoCopy", true}};
  json::object host{
      {"NetworkMode", spec.network},
      {"ReadonlyRootfs", true},
      {"CapDrop", json::array{"ALL"}},
      {"SecurityOpt", json::array{"no-new-privileges"}},
      {"Memory", spec.limits.memory.count},
      {"MemorySwap", spec.limits.memory.count},  // both together: no swap
      {"CpuPeriod", 100000},
      {"CpuQuota", spec.limits.cpu_quota},
      {"PidsLimit", spec.limits.pids + kOurProcesses},
      {"Ulimits", json::array{json::object{{"Name", "nofile"},
                                           {"Soft", spec.limits.open_files},
                                           {"Hard", spec.limits.open_files}},
                              json::object{{"Name", "core"}, {"Soft", 0}, {"Hard", 0}}}},
      {"IpcMode", "private"},
      {"ShmSize", kTmpBytes},
      {"AutoRemove", true},
      {"Init", false},
      {"LogConfig", json::object{{"Type", "none"}}},
      {"Mounts", with_door(json::array{workspace, guest}, spec.door_dir)},
      {"Tmpfs", json::object{{"/tmp", tmpfs("mode=1777")},
                             {"/home/sandboxuser", tmpfs("mode=0755,uid=1000,gid=1000")}}},
  };
  if (!spec.runtime.empty()) host["Runtime"] = spec.runtime;
  return {{"Image", spec.image},
          {"Hostname", "box-" + spec.id.substr(0, 8)},
          {"User", kUser},
          {"WorkingDir", kWorkspace},
          {"Entrypoint", json::array{kGuestPath, "box", spec.id}},
          {"Cmd", json::array{}},
          {"Healthcheck", json::object{{"Test", json::array{"NONE"}}}},
          {"Labels", spec.labels},
          {"HostConfig", host}};
}

json::object describe_filler(const std::string& image, const std::string& name, const char* target,
                             const std::string& door_dir) {
  json::object mount = volume(name, target, false);
  mount["VolumeOptions"] = json::object{{"NoCopy", true}};
  return {{"Image", image},
          {"Entrypoint", json::array{kGuestPath}},
          {"Cmd", json::array{}},
          {"HostConfig", json::object{{"Mounts", with_door(json::array{mount}, door_dir)},
                                      {"NetworkMode", "none"}}}};
}

std::string guest_volume_name() {
  const auto digest = sha256(guest_tar());
  std::string name = "threadbox-guest-";
  for (std::size_t i = 0; i < 8; ++i) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", digest[i]);
    name += text;
  }
  return name;
}

// Whoever finds the guest finds the others too: it is written last.
std::string guest_tar() {
  return make_tar({{"waiter.so", 0644, 0, 0, jail::waiter_image()},
                   {"opening.bash", 0644, 0, 0, jail::opening_text()},
                   {"guest", 0755, 0, 0, jail::guest_image()}});
}

std::string workspace_tar() { return make_tar({{"workspace/", 0755, kTenantUid, kTenantUid, {}}}); }

std::uint64_t guest_size() { return jail::guest_image().size(); }

}  // namespace tb::docker
