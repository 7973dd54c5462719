// SPDX-License-Identifier: Apache-2.0
// Landlock's numbers, which distribution headers have only in part, and its three calls.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace tb::os::landlock {

constexpr std::uint64_t kExecute = 1ull << 0;
constexpr std::uint64_t kWriteFile = 1ull << 1;
constexpr std::uint64_t kReadFile = 1ull << 2;
constexpr std::uint64_t kRemoveDir = 1ull << 4;
constexpr std::uint64_t kRemoveFile = 1ull << 5;
constexpr std::uint64_t kMakeAll = 0x7full << 6;  // char, dir, reg, sock, fifo, block, symlink
constexpr std::uint64_t kRefer = 1ull << 13;      // ABI 2
constexpr std::uint64_t kTruncate = 1ull << 14;   // ABI 3
constexpr std::uint64_t kScopeAll = 3;            // ABI 6: abstract sockets, signals

struct RulesetAttr {
  std::uint64_t fs = 0;
  std::uint64_t net = 0;
  std::uint64_t scoped = 0;
};

struct __attribute__((packed)) PathBeneath {
  std::uint64_t access = 0;
  std::int32_t parent = -1;
};

// 0 where the kernel has none.
inline int abi() {
  const long version = ::syscall(444, nullptr, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */);
  return version < 0 ? 0 : static_cast<int>(version);
}

// What can be handled with this version.
inline std::uint64_t write_rights(int version) {
  std::uint64_t rights = kWriteFile | kRemoveDir | kRemoveFile | kMakeAll;
  if (version >= 2) rights |= kRefer;
  if (version >= 3) rights |= kTruncate;
  return rights;
}

inline int create_ruleset(const RulesetAttr& attr, int version) {
  const std::size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
  return static_cast<int>(::syscall(444, &attr, size, 0));
}

inline int add_path(int ruleset, int parent, std::uint64_t access) {
  PathBeneath rule{access, parent};
  return static_cast<int>(::syscall(445, ruleset, 1 /* LANDLOCK_RULE_PATH_BENEATH */, &rule, 0));
}

inline int restrict_self(int ruleset) { return static_cast<int>(::syscall(446, ruleset, 0)); }

}  // namespace tb::os::landlock
