// SPDX-License-Identifier: Apache-2.0
// Wrong credentials, counted by the address that they come from: who tries many is told to wait.
// Nobody with a right one is ever kept waiting by this.
#pragma once

#include <chrono>
#include <string>
#include <unordered_map>

namespace tb::auth {

class Failures {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr double kBurst = 100;
  static constexpr double kPerSecond = 10;
  static constexpr std::size_t kAddresses = 10'000;

  // One more of this address. True: these are too many.
  bool note(const std::string& address, Clock::time_point now);
  std::size_t addresses() const { return buckets_.size(); }

 private:
  struct Bucket {
    double left = kBurst;
    Clock::time_point at = {};
  };
  std::unordered_map<std::string, Bucket> buckets_;
};

}  // namespace tb::auth
