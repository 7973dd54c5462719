// SPDX-License-Identifier: Apache-2.0
#include "auth/failures.h"

#include <algorithm>

namespace tb::auth {

bool Failures::note(const std::string& address, Clock::time_point now) {
  const auto filled = [&](const Bucket& bucket) {
    const double seconds = std::chrono::duration<double>(now - bucket.at).count();
    return std::min(kBurst, bucket.left + seconds * kPerSecond);
  };
  if (buckets_.size() >= kAddresses && !buckets_.contains(address)) {
    std::erase_if(buckets_, [&](const auto& one) { return filled(one.second) >= kBurst; });
    if (buckets_.size() >= kAddresses) buckets_.clear();  // better forgetful than large
  }
  Bucket& bucket = buckets_.try_emplace(address, Bucket{kBurst, now}).first->second;
  bucket.left = filled(bucket);
  bucket.at = now;
  if (bucket.left < 1) return true;
  bucket.left -= 1;
  return false;
}

}  // namespace tb::auth
