// SPDX-License-Identifier: Apache-2.0
// Which host uids a sandbox has: a slot is two of them, claimed machine-wide.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "os/fd.h"

namespace tb::jail {

// Above what distributions, systemd and subordinate-uid tools hand out, below 2^31.
constexpr std::uint32_t kFirstUid = 0x70000000;
// The server's own, when there is no user named threadbox.
constexpr std::uint32_t kServerUid = kFirstUid;
// Whom the files of volumes belong to on disk. Nobody runs as it: each sandbox sees them as its
// own.
constexpr std::uint32_t kVolumeUid = kFirstUid + 1;
constexpr std::uint32_t kSlots = 100000;

inline std::uint32_t guest_uid(std::uint32_t slot) { return kFirstUid + 16 + slot * 2; }
inline std::uint32_t tenant_uid(std::uint32_t slot) { return guest_uid(slot) + 1; }

// Claims are locks on the bytes of one file that all keepers of the machine share: a claim ends
// with its keeper, however that ends.
class Slots {
 public:
  // `file` is e.g. /run/threadbox/slots; made when missing.
  explicit Slots(const std::string& file);
  // Prefers `wanted`; throws Error{exhausted} when none is free.
  std::uint32_t claim(std::optional<std::uint32_t> wanted = std::nullopt);
  // False: somebody else has it.
  bool try_claim(std::uint32_t slot);
  void release(std::uint32_t slot);

 private:
  bool lock(std::uint32_t slot);

  os::Fd file_;
  std::set<std::uint32_t> held_;
  std::uint32_t next_ = 0;
};

}  // namespace tb::jail
