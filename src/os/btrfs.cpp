// SPDX-License-Identifier: Apache-2.0
#include "os/btrfs.h"

#include <linux/btrfs.h>
#include <sys/ioctl.h>

#include <cstring>

#include "os/fault.h"

namespace tb::os::btrfs {
namespace {

constexpr std::uint64_t kEnableSimple = 4;  // BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA

template <std::size_t N>
void copy_name(char (&to)[N], const std::string& name) {
  if (name.size() >= N) throw Error{Code::invalid, "name too long: " + name};
  std::memcpy(to, name.c_str(), name.size() + 1);
}

}  // namespace

bool enable_quotas(const Fd& filesystem) {
  btrfs_ioctl_quota_ctl_args args{};
  args.cmd = kEnableSimple;
  if (::ioctl(filesystem.get(), BTRFS_IOC_QUOTA_CTL, &args) == 0) return true;
  args = {};
  args.cmd = BTRFS_QUOTA_CTL_ENABLE;
  check(::ioctl(filesystem.get(), BTRFS_IOC_QUOTA_CTL, &args), "enable btrfs quotas");
  return false;
}

void create_subvolume(const Fd& parent, const std::string& name) {
  btrfs_ioctl_vol_args args{};
  copy_name(args.name, name);
  attempt("create subvolume " + name,
          [&] { return ::ioctl(parent.get(), BTRFS_IOC_SUBVOL_CREATE, &args); });
}

void limit_subvolume(const Fd& subvolume, Bytes limit) {
  btrfs_ioctl_qgroup_limit_args args{};  // group 0: the subvolume itself
  args.lim.flags = BTRFS_QGROUP_LIMIT_MAX_RFER;
  args.lim.max_rfer = limit.count;
  attempt("limit a subvolume",
          [&] { return ::ioctl(subvolume.get(), BTRFS_IOC_QGROUP_LIMIT, &args); });
}

std::uint64_t subvolume_id(const Fd& subvolume) {
  btrfs_ioctl_ino_lookup_args args{};
  args.objectid = 256;  // BTRFS_FIRST_FREE_OBJECTID: the subvolume's root
  check(::ioctl(subvolume.get(), BTRFS_IOC_INO_LOOKUP, &args), "look up a subvolume");
  return args.treeid;
}

void delete_subvolume(const Fd& parent, const std::string& name) {
  btrfs_ioctl_vol_args args{};
  copy_name(args.name, name);
  check(::ioctl(parent.get(), BTRFS_IOC_SNAP_DESTROY, &args), "delete subvolume " + name);
}

bool remove_quota_group(const Fd& filesystem, std::uint64_t id) {
  btrfs_ioctl_qgroup_create_args args{};
  args.create = 0;
  args.qgroupid = id;
  return ::ioctl(filesystem.get(), BTRFS_IOC_QGROUP_CREATE, &args) == 0 || errno == ENOENT;
}

void grow_to_device(const Fd& filesystem) {
  btrfs_ioctl_vol_args args{};
  copy_name(args.name, "max");
  check(::ioctl(filesystem.get(), BTRFS_IOC_RESIZE, &args), "grow btrfs");
}

}  // namespace tb::os::btrfs
