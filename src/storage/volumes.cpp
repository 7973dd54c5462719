// SPDX-License-Identifier: Apache-2.0
#include "storage/volumes.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/id.h"
#include "base/log.h"
#include "base/mount_target.h"

namespace tb::storage {
namespace json = boost::json;
namespace {

constexpr std::size_t kMaxName = 64;
constexpr std::size_t kMaxOpen = 8;
constexpr std::size_t kMaxMounts = 16;
constexpr Bytes kSmallest = 1_MiB;
constexpr Milliseconds kClosing = 5s;
constexpr Milliseconds kAgain = 20ms;
constexpr const char* kBox = "volume-";  // how sandboxes begin in which files are moved

// The default tenant's are as they were before there were tenants.
json::object owner_of(const Owner& owner) {
  json::object label;
  if (!owner.tenant.empty()) label["tenant"] = owner.tenant;
  label["user"] = owner.user;
  return label;
}

std::string to_label(const Owner& owner, const std::string& name, WallTime created) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(created.time_since_epoch()).count();
  json::object label = owner_of(owner);
  label["name"] = name;
  label["created"] = seconds;
  return json::serialize(label);
}

// How the labels of such volumes begin.
std::string beginning(const json::object& label) {
  std::string begins = json::serialize(label);
  begins.back() = ',';
  return begins;
}

std::optional<Volume> from_info(sandbox::VolumeInfo info) {
  boost::system::error_code error;
  const json::value value = json::parse(info.label, error);
  const json::object* label = error ? nullptr : value.if_object();
  if (!label) return std::nullopt;
  const json::value* tenant = label->if_contains("tenant");  // those of before tenants have none
  const json::value* user = label->if_contains("user");
  const json::value* name = label->if_contains("name");
  const json::value* created = label->if_contains("created");
  if (!user || !user->is_string() || !name || !name->is_string()) return std::nullopt;
  if (tenant && !tenant->is_string()) return std::nullopt;
  Owner owner{tenant ? std::string{tenant->get_string()} : std::string{},
              std::string{user->get_string()}};
  Volume volume{std::move(info.id), std::move(owner), std::string{name->get_string()}, info.limit,
                info.limited};
  if (created && created->is_int64()) {
    const std::int64_t seconds = std::clamp<std::int64_t>(created->get_int64(), 0, 1ll << 32);
    volume.created = WallTime{std::chrono::seconds{seconds}};
  }
  volume.sessions = std::move(info.users);
  std::erase_if(volume.sessions, [](const std::string& id) { return id.starts_with(kBox); });
  return volume;
}

std::string mebibytes(Bytes bytes) { return std::to_string(bytes.count >> 20) + " MiB"; }

void check_places(const std::vector<VolumeUse>& uses) {
  if (uses.size() > kMaxMounts) {
    throw Error{Code::invalid, "a session has at most 16 volumes and mounts"};
  }
  for (std::size_t i = 0; i < uses.size(); ++i) {
    std::string problem = problem_of_target(uses[i].path);
    if (uses[i].path == "/workspace") problem = "is the session's own: choose a path below it";
    if (!problem.empty()) {
      throw Error{Code::invalid, "the path of volume " + uses[i].name + " " + problem};
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (!targets_touch(uses[i].path, uses[j].path)) continue;
      throw Error{Code::invalid, "two volumes can't be mounted into each other: " + uses[j].path +
                                     " and " + uses[i].path};
    }
  }
}

Error missing(const std::string& name, const std::vector<Volume>& volumes) {
  std::string known;
  for (const Volume& volume : volumes) known += (known.empty() ? "" : ", ") + volume.name;
  return Error{Code::not_found, "Volume not found: " + name + "; this user has " +
                                    (known.empty() ? "none" : known.substr(0, 1000)) +
                                    "; POST /api/volumes makes one"};
}

}  // namespace

VolumeInUse::VolumeInUse(const std::string& name, std::vector<std::string> sessions)
    : Error(Code::conflict,
            sessions.empty()
                ? "Volume " + name + " is in use by an upload or a download: try again"
                : "Volume " + name + " is in use: end the sessions that have it first"),
      sessions_(std::move(sessions)) {}

bool is_volume_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxName || name[0] == '.' || name[0] == '-') return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

Volumes::Volumes(asio::any_io_executor executor, sandbox::Provider& provider, VolumeLimits limits,
                 std::string environment)
    : provider_(provider),
      limits_(limits),
      environment_(std::move(environment)),
      tasks_(executor, [](const std::string& name, std::exception_ptr) {
        log(LogLevel::debug, "task_ended", {{"task", name}});
      }) {}

sandbox::VolumeHost& Volumes::host() const {
  if (sandbox::VolumeHost* host = provider_.volumes()) return *host;
  throw Error{Code::invalid, "this provider has no volumes"};
}

awaitable<Volume> Volumes::create(Owner owner, std::string name, std::optional<Bytes> limit) {
  if (!is_volume_name(name)) {
    throw Error{Code::invalid,
                "a volume's name has 1 to 64 letters, digits, dots, dashes and underscores, and "
                "begins with no dot or dash"};
  }
  const Bytes size = limit.value_or(limits_.usual);
  if (size < kSmallest || size > limits_.most) {
    throw Error{Code::invalid,
                "a volume has from 1 MiB to " + mebibytes(limits_.most) + " (MAX_VOLUME_SIZE_MB)"};
  }
  const std::pair<Owner, std::string> key{owner, name};
  if (!making_.insert(key).second) throw Error{Code::conflict, "Volume exists: " + name};
  Volume made{make_uuid(), owner, name, size};
  made.created = std::chrono::system_clock::now();
  std::exception_ptr failure;
  try {
    const std::vector<Volume> there = co_await list(owner);
    const auto same = [&](const Volume& volume) { return volume.name == name; };
    if (std::any_of(there.begin(), there.end(), same)) {
      throw Error{Code::conflict, "Volume exists: " + name};
    }
    if (there.size() >= limits_.per_user) {
      throw Error{Code::exhausted, "a user has at most " + std::to_string(limits_.per_user) +
                                       " volumes (MAX_VOLUMES_PER_USER): remove one first"};
    }
    std::string label = to_label(owner, name, made.created);
    co_await host().make_volume(made.id, size, std::move(label));
    made = co_await get(owner, name);
  } catch (...) {
    failure = std::current_exception();
  }
  making_.erase(key);
  if (failure) std::rethrow_exception(failure);
  log(LogLevel::info, "volume_created", {{"user", owner.user.substr(0, 8)}, {"volume", name}});
  co_return made;
}

awaitable<std::vector<Volume>> Volumes::list(Owner owner) {
  std::string begins = beginning(owner_of(owner));
  std::vector<Volume> volumes = co_await find(std::move(begins));
  std::erase_if(volumes, [&](const Volume& volume) { return volume.owner != owner; });
  co_return volumes;
}

awaitable<std::vector<Volume>> Volumes::list_tenant(std::string tenant) {
  const json::object label{{"tenant", tenant}};
  std::string begins = tenant.empty() ? "{\"user\":" : beginning(label);
  std::vector<Volume> volumes = co_await find(std::move(begins));
  std::erase_if(volumes, [&](const Volume& volume) { return volume.owner.tenant != tenant; });
  co_return volumes;
}

// Not all of them: there may be very many, and the keeper has nobody to help it.
awaitable<std::vector<Volume>> Volumes::find(std::string begins) {
  std::vector<Volume> volumes;
  std::vector<sandbox::VolumeInfo> found = co_await host().list_volumes(std::move(begins));
  for (sandbox::VolumeInfo& info : found) {
    if (std::optional<Volume> volume = from_info(std::move(info))) {
      volumes.push_back(std::move(*volume));
    }
  }
  std::sort(volumes.begin(), volumes.end(), [](const Volume& a, const Volume& b) {
    return std::tie(a.owner.user, a.name, a.id) < std::tie(b.owner.user, b.name, b.id);
  });
  co_return volumes;
}

awaitable<Volume> Volumes::get(Owner owner, std::string name) {
  std::vector<Volume> volumes = co_await list(std::move(owner));
  for (Volume& volume : volumes) {
    if (volume.name == name) co_return std::move(volume);
  }
  throw missing(name.substr(0, kMaxName), volumes);
}

awaitable<void> Volumes::remove(Owner owner, std::string name) {
  asio::steady_timer pause{co_await asio::this_coro::executor};
  const auto deadline = std::chrono::steady_clock::now() + kClosing;
  for (;;) {
    const Volume volume = co_await get(owner, name);
    if (!volume.sessions.empty()) throw VolumeInUse{name, volume.sessions};
    bool busy = false;
    try {
      co_await host().remove_volume(volume.id);
    } catch (const Error& error) {
      if (error.code() != Code::conflict) throw;
      busy = true;
    }
    if (!busy) break;
    // The sandbox of an upload that was just answered may not have ended yet.
    if (std::chrono::steady_clock::now() > deadline) throw VolumeInUse{name, {}};
    pause.expires_after(kAgain);
    co_await pause.async_wait(asio::use_awaitable);
  }
  log(LogLevel::info, "volume_removed", {{"user", owner.user.substr(0, 8)}, {"volume", name}});
}

awaitable<std::vector<sandbox::Mount>> Volumes::resolve(Owner owner, std::vector<VolumeUse> uses) {
  check_places(uses);
  std::vector<sandbox::Mount> mounts;
  if (uses.empty()) co_return mounts;
  std::vector<Volume> volumes = co_await list(owner);
  for (const VolumeUse& use : uses) {
    const auto same = [&](const Volume& volume) { return volume.name == use.name; };
    auto found = std::find_if(volumes.begin(), volumes.end(), same);
    if (found == volumes.end() && !use.made_if_missing) throw missing(use.name, volumes);
    if (found == volumes.end()) {
      Volume made = co_await create(owner, use.name, std::nullopt);
      volumes.push_back(std::move(made));
      found = std::prev(volumes.end());
    }
    mounts.push_back({found->id, use.path, use.read_only, false, use.name});
  }
  co_return mounts;
}

awaitable<Volumes::Opened> Volumes::open(Volume volume, bool read_only) {
  if (open_ >= kMaxOpen) {
    throw Error{Code::exhausted, "8 uploads to and downloads of volumes are under way: try again"};
  }
  sandbox::SandboxSpec spec;
  spec.id = kBox + make_uuid();
  spec.environment = environment_;
  spec.limits.disk = volume.limit;
  spec.limits.cpu_quota = 100'000;
  spec.mounts.push_back({volume.id, "/workspace", read_only, false, volume.name});
  ++open_;
  std::shared_ptr<sandbox::Sandbox> sandbox;
  try {
    sandbox = co_await provider_.create(std::move(spec));
  } catch (...) {
    --open_;
    throw;
  }
  co_return Opened{*this, std::move(sandbox)};
}

Volumes::Opened::Opened(Volumes& volumes, std::shared_ptr<sandbox::Sandbox> sandbox)
    : volumes_(&volumes), sandbox_(std::move(sandbox)) {}

Volumes::Opened::~Opened() {
  if (!sandbox_) return;
  --volumes_->open_;
  Volumes* const volumes = volumes_;
  const std::string id = sandbox_->id();
  volumes->tasks_.spawn("close a volume", [volumes, id] { return volumes->discard(id); });
}

awaitable<void> Volumes::discard(std::string id) {
  try {
    co_await provider_.destroy(id);
  } catch (const Error& error) {
    // The keeper ends what belongs to nobody when we are gone.
    log(LogLevel::warning, "volume_not_closed", {{"sandbox", id}, {"error", error.what()}});
  }
}

}  // namespace tb::storage
