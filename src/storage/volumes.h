// SPDX-License-Identifier: Apache-2.0
// Volumes by the names that users give them: who owns which, and what a session gets of them. The
// provider keeps them, with our words about each, so nothing here has to be stored.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/async.h"
#include "base/error.h"
#include "base/units.h"
#include "sandbox/sandbox.h"

namespace tb::storage {

using WallTime = std::chrono::system_clock::time_point;

// Whose a volume is: users of different tenants have nothing in common.
struct Owner {
  std::string tenant;  // empty: the default one
  std::string user;
  bool operator==(const Owner&) const = default;
  auto operator<=>(const Owner&) const = default;
};

struct Volume {
  std::string id;
  Owner owner;
  std::string name;
  Bytes limit;
  bool limited = false;  // the kernel holds it to that
  WallTime created = {};
  std::vector<std::string> sessions = {};  // that have it, or will when they come back
};

// What a session wants of one.
struct VolumeUse {
  std::string name;
  std::string path;
  bool read_only = false;
  bool made_if_missing = false;
};

class VolumeInUse : public Error {
 public:
  VolumeInUse(const std::string& name, std::vector<std::string> sessions);
  const std::vector<std::string>& sessions() const { return sessions_; }

 private:
  std::vector<std::string> sessions_;
};

struct VolumeLimits {
  Bytes usual = 1_GiB;
  Bytes most = 10_GiB;
  std::size_t per_user = 32;
};

// Letters, digits, dots, dashes and underscores, and no dot or dash first; 64 at most.
bool is_volume_name(std::string_view name);

class Volumes {
 public:
  // `provider` mounts them; in sandboxes of `environment` files are moved in and out.
  Volumes(asio::any_io_executor executor, sandbox::Provider& provider, VolumeLimits limits,
          std::string environment = "host");

  const VolumeLimits& limits() const { return limits_; }

  // Throws Error{invalid} for a name or a size that can't be, {conflict} when there is one,
  // {exhausted} when the user has too many.
  awaitable<Volume> create(Owner owner, std::string name, std::optional<Bytes> limit);
  // By name; of one user, or of all of a tenant.
  awaitable<std::vector<Volume>> list(Owner owner);
  awaitable<std::vector<Volume>> list_tenant(std::string tenant);
  // Throws Error{not_found} with the names that there are.
  awaitable<Volume> get(Owner owner, std::string name);
  // Throws VolumeInUse, or Error{not_found}.
  awaitable<void> remove(Owner owner, std::string name);

  // What to mount for a session of `owner`. Throws Error{invalid}.
  awaitable<std::vector<sandbox::Mount>> resolve(Owner owner, std::vector<VolumeUse> uses);

  // A sandbox of its own that has nothing but the volume, as its workspace: whatever is in there,
  // and whatever is unpacked, nobody but its own uid has to do with it.
  class Opened {
   public:
    Opened(Volumes& volumes, std::shared_ptr<sandbox::Sandbox> sandbox);
    Opened(Opened&& other) noexcept = default;
    Opened& operator=(Opened&&) = delete;
    ~Opened();
    sandbox::Files& files() const { return sandbox_->files(); }

   private:
    Volumes* volumes_;
    std::shared_ptr<sandbox::Sandbox> sandbox_;  // null: moved from
  };
  // Throws Error{exhausted} when too many are open.
  awaitable<Opened> open(Volume volume, bool read_only);
  // Ends what is open.
  awaitable<void> close() { return tasks_.close(); }

 private:
  // All whose labels begin like that.
  awaitable<std::vector<Volume>> find(std::string begins);
  awaitable<void> discard(std::string id);
  sandbox::VolumeHost& host() const;

  sandbox::Provider& provider_;
  const VolumeLimits limits_;
  const std::string environment_;
  std::set<std::pair<Owner, std::string>> making_;
  std::size_t open_ = 0;
  TaskGroup tasks_;
};

}  // namespace tb::storage
