// SPDX-License-Identifier: Apache-2.0
#include "jail/volumes.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/codec.h"
#include "jail/slots.h"
#include "jail/wire.h"
#include "os/idmap.h"
#include "os/mount.h"

namespace tb::jail {
namespace fs = std::filesystem;
namespace {

constexpr std::uint32_t kFormat = 0x54425631;  // "TBV1"
constexpr std::size_t kMost = 10'000;
constexpr Bytes kSmallest = 1_MiB;

std::string encode(const Volumes::Volume& volume) {
  Writer out;
  out.u32(kFormat);
  out.u64(volume.limit.count);
  out.bytes(volume.label);
  return out.take();
}

bool decode(std::string_view text, Volumes::Volume& volume) {
  Reader in{text};
  if (in.u32() != kFormat) return false;
  volume.limit = Bytes{in.u64()};
  volume.label = in.bytes();
  return in.done();
}

Error unknown(const std::string& id) {
  return Error{Code::not_found, "there is no volume " + id + " any more"};
}

}  // namespace

Volumes::Volumes(Disk& disk, std::string dir, bool root)
    : disk_(disk), dir_(std::move(dir)), root_(root) {
  fs::create_directories(dir_);
  fs::permissions(dir_, fs::perms::owner_all);  // names of users are not for everybody
  std::vector<std::string> kept;
  for (const auto& entry : fs::directory_iterator{dir_}) {
    const std::string name = entry.path().filename();
    if (!valid_id(name)) continue;  // temporary files
    kept.push_back(name);           // also when it can't be read: its files stay for somebody
    Volume volume;
    std::error_code ignored;
    if (entry.is_regular_file(ignored) && decode(os::read_file(entry.path()), volume)) {
      volumes_.emplace(name, std::move(volume));
    }
  }
  for (const std::string& id : disk_.volumes()) {
    if (std::find(kept.begin(), kept.end(), id) == kept.end()) disk_.remove_volume(id);
  }
}

void Volumes::make(const std::string& id, Bytes limit, const std::string& label) {
  if (volumes_.contains(id)) throw Error{Code::conflict, "volume " + id + " exists"};
  if (limit < kSmallest) throw Error{Code::invalid, "a volume has 1 MiB at least"};
  if (volumes_.size() >= kMost) {
    throw Error{Code::exhausted, "there are 10000 volumes: remove some first"};
  }
  const std::uint32_t owner = root_ ? kVolumeUid : 0;
  disk_.open_volume(id, limit, owner, Disk::Missing::is_made);
  Volume volume{limit, label};
  try {
    os::replace_file(record_path(id), encode(volume), 0600);
  } catch (...) {
    disk_.remove_volume(id);
    throw;
  }
  volumes_.emplace(id, std::move(volume));
}

void Volumes::remove(const std::string& id) {
  if (volumes_.erase(id) == 0) throw unknown(id);
  // The record first: a tree without one is cleared away, one with it would look whole.
  ::unlink(record_path(id).c_str());
  disk_.remove_volume(id);
}

os::Fd Volumes::mount(const std::string& id, std::uint32_t tenant, unsigned attributes) const {
  const auto found = volumes_.find(id);
  if (found == volumes_.end()) throw unknown(id);
  const std::uint32_t owner = root_ ? kVolumeUid : 0;
  const os::Fd top = disk_.open_volume(id, found->second.limit, owner, Disk::Missing::is_an_error);
  os::Fd mount = os::clone_mount(top.get(), "", attributes);
  if (!root_) return mount;  // all sandboxes are one uid, and so is the owner
  try {
    os::show_owner_as(mount, kVolumeUid, tenant);
  } catch (const SystemError& error) {
    if (error.number() != EINVAL) throw;
    throw Error{Code::unavailable,
                "the file system of the state directory has no id-mapped mounts, which volumes "
                "need: use btrfs, ext4 or xfs and Linux 5.15"};
  }
  return mount;
}

}  // namespace tb::jail
