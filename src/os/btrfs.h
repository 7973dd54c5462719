// SPDX-License-Identifier: Apache-2.0
// The few btrfs calls that a pool of limited directories needs.
#pragma once

#include <cstdint>
#include <string>

#include "base/units.h"
#include "os/fd.h"

namespace tb::os::btrfs {

// Quotas on; simple ones (Linux 6.7) where the kernel has them. True: simple.
bool enable_quotas(const Fd& filesystem);

// A subvolume named `name` in `parent`, holding at most `limit` bytes, metadata included.
void create_subvolume(const Fd& parent, const std::string& name);
void limit_subvolume(const Fd& subvolume, Bytes limit);
std::uint64_t subvolume_id(const Fd& subvolume);
void delete_subvolume(const Fd& parent, const std::string& name);
// Forgets the quota group of a deleted subvolume. False: not possible yet, the kernel still cleans.
bool remove_quota_group(const Fd& filesystem, std::uint64_t id);

// Takes all room of the device.
void grow_to_device(const Fd& filesystem);

}  // namespace tb::os::btrfs
