// SPDX-License-Identifier: Apache-2.0
// What a limiter tells other servers, and hears of them.
#include <algorithm>

#include "limits/limiter.h"

namespace tb::limits {
namespace {

constexpr std::array kCounts{&Allowance::sessions, &Allowance::processes};

template <class E>
constexpr std::size_t index(E value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

void Limiter::share(std::function<void()> used, Clock::duration patience) {
  used_ = std::move(used);
  patience_ = patience;
}

void Limiter::note_taken(const std::string& name, Flow flow, const Rate& rate, double amount) {
  Bucket& bucket = accounts_[name][index(flow)];
  if (bucket.untold == 0) {
    bucket.since = now_();
    untold_[{name, flow}] = rate;
  }
  bucket.untold += amount;
  used_();
}

std::vector<Limiter::Taken> Limiter::take_told(std::size_t most) {
  std::vector<Taken> told;
  while (!untold_.empty() && told.size() < most) {
    const auto first = untold_.begin();
    const auto& [name, flow] = first->first;
    Bucket& bucket = accounts_[name][index(flow)];
    told.push_back({name, flow, first->second, bucket.untold, now_() - bucket.since});
    bucket.untold = 0;
    untold_.erase(first);
  }
  return told;
}

// Never more than is known here: others take, and give nothing back. So it changes little when
// Redis has lost what it knew, or counts something twice.
void Limiter::settle(const Taken& told, double left) {
  const auto account = accounts_.find(told.name);
  if (account == accounts_.end()) return;
  Bucket& bucket = account->second[index(told.flow)];
  fill(bucket, told.rate);
  bucket.level = std::min(bucket.level, left - bucket.untold);
  foresee(bucket, told.rate);
}

// Names that clients choose must not fill the memory: those beyond are counted here alone.
void Limiter::note_counted(const std::string& name, const Entry& entry, Stock stock) {
  if (entry.allowance.*kCounts[index(stock)] == 0) return;
  if (counted_.size() >= settings_.names && !counted_.contains(name)) return;
  counted_[name] = true;
  used_();
}

std::vector<Limiter::Count> Limiter::counts_told(std::size_t most) {
  std::vector<Count> told;
  for (auto row = counted_.begin(); row != counted_.end() && told.size() < most;) {
    const auto current = row++;
    if (!current->second) continue;
    const auto held = held_.find(current->first);
    if (held != held_.end()) {
      told.push_back({current->first, held->second});
      current->second = false;
    } else {
      told.push_back({current->first, {}});
      counted_.erase(current);
    }
  }
  return told;
}

void Limiter::tell_counts_again() {
  for (auto& row : counted_) row.second = true;
}

std::uint64_t Limiter::held_elsewhere(const std::string& name, Stock stock) const {
  const auto found = elsewhere_.find(name);
  if (found == elsewhere_.end() || now_() - found->second.heard > patience_) return 0;
  return found->second.held[index(stock)];
}

void Limiter::set_elsewhere(const std::string& name, const Held& held) {
  if (held == Held{}) {
    elsewhere_.erase(name);
    return;
  }
  const auto now = now_();
  if (elsewhere_.size() >= settings_.names && !elsewhere_.contains(name)) {
    if (now - pruned_ < patience_) return;
    pruned_ = now;
    std::erase_if(elsewhere_, [&](const auto& row) { return now - row.second.heard > patience_; });
  }
  elsewhere_[name] = {held, now};
}

}  // namespace tb::limits
