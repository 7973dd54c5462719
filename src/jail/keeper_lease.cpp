// SPDX-License-Identifier: Apache-2.0
// The lease of a worker of a cluster, as far as its sandboxes go. The keeper holds it because it
// outlives the server: once the lease has run out, the threads of these sandboxes may be another
// worker's, so nothing in them may run (docs/cluster.md).
#include <cstdio>

#include "base/boottime.h"
#include "jail/keeper_loop.h"

namespace tb::jail {

using std::chrono::milliseconds;

void Keeper::take_lease(int client, std::uint32_t number, Reader& in) {
  Lease lease;
  if (!Lease::decode(in, lease)) throw Error{Code::invalid, "malformed lease"};
  if (lease.end_at != 0 && lease.said_at > boottime_ms()) {
    // Taken at its word it would last for longer than the server has it: the one before stands.
    std::fprintf(stderr,
                 "keeper: a lease by another clock than ours is refused: the server must "
                 "be in the keeper's time namespace\n");
    throw Error{Code::invalid, "a lease by another clock than the keeper's"};
  }
  if (!lease.first || lease_.end_at == 0) lease_ = lease;
  mind_lease();  // it may have been on its way for long
  if (number != 0) clients_.done({client, number});
}

bool Keeper::lease_over() const { return lease_.end_at != 0 && boottime_ms() >= lease_.freeze_at; }

milliseconds Keeper::until_lease() const {
  if (lease_.end_at == 0) return milliseconds::max();
  const std::uint64_t now = boottime_ms();
  const std::uint64_t next = frozen_ ? lease_.end_at : lease_.freeze_at;
  if (next > now) return milliseconds{next - now};
  // What is over has been seen to; those that were being made then are looked for at each tick.
  return now < lease_.end_at ? milliseconds{0} : milliseconds::max();
}

void Keeper::mind_lease() {
  const std::uint64_t now = boottime_ms();
  if (lease_.end_at == 0 || now < lease_.freeze_at) {
    if (!frozen_) return;
    frozen_ = false;
    for (auto& [id, live] : live_) {
      if (!live.dying) live.jail->cgroup.freeze(false);
    }
    std::fprintf(stderr, "keeper: the lease was renewed: sandboxes go on\n");
    return;
  }
  if (!frozen_) freeze_all();
  if (now < lease_.end_at) return;
  // SIGKILL reaches what is frozen too.
  for (auto& [id, live] : live_) {
    if (!live.dying) end(live, true);
  }
}

void Keeper::freeze_all() {
  frozen_ = true;
  if (live_.empty()) return;
  std::fprintf(stderr, "keeper: the lease was not renewed: %zu sandboxes are stopped\n",
               live_.size());
  for (auto& [id, live] : live_) {
    if (!live.dying && !live.jail->cgroup.freeze(true)) end(live, true);
  }
}

}  // namespace tb::jail
