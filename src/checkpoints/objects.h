// SPDX-License-Identifier: Apache-2.0
// Named pieces of bytes in a place that all servers of a cluster reach: a shared directory, or a
// bucket. Whoever writes a name writes it whole: others see the old bytes, the new ones, or none.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/async.h"

namespace tb::checkpoints {

inline constexpr std::size_t kMostObject = 16 << 20;

// Keys are words of a-z, 0-9 and -, with slashes between. All throw Error{unavailable}.
class Objects {
 public:
  virtual ~Objects() = default;
  virtual awaitable<void> put(std::string key, std::string bytes) = 0;
  // Empty: there is none.
  virtual awaitable<std::optional<std::string>> get(std::string key) = 0;
  // Of all keys that begin with this and a slash, in their order.
  virtual awaitable<std::vector<std::string>> list(std::string prefix) = 0;
  // One that is not there is fine.
  virtual awaitable<void> remove(std::string key) = 0;
};

}  // namespace tb::checkpoints
