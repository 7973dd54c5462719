// SPDX-License-Identifier: Apache-2.0
#include "limits/limiter.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tb::limits {
namespace {

using Fractional = std::chrono::duration<double>;

constexpr std::array<std::string_view, 3> kScopeNames{"key", "tenant", "user"};
constexpr std::array<std::string_view, 3> kFlowNames{"requests", "creations", "bytes"};
constexpr std::array<std::string_view, 2> kStockNames{"sessions", "processes"};
constexpr std::array kRates{&Allowance::requests, &Allowance::creations, &Allowance::bytes};
constexpr std::array kCounts{&Allowance::sessions, &Allowance::processes};
// For who tries again when something that is held may have been given back.
constexpr std::chrono::seconds kHeldRetry{1};

template <class E>
constexpr std::size_t index(E value) {
  return static_cast<std::size_t>(value);
}

std::chrono::seconds whole_seconds(double seconds) {
  return std::chrono::seconds{static_cast<std::int64_t>(std::ceil(std::max(seconds, 0.0)))};
}

std::string full_name(Scope scope, std::string_view name) {
  std::string text{name_of(scope)};
  return text.append("\n").append(name);
}

std::uint64_t whole(double level) { return level < 0 ? 0 : static_cast<std::uint64_t>(level); }

std::chrono::seconds until_full(const Rate& rate, double level) {
  const double missing = 1 - level / static_cast<double>(rate.amount);
  return whole_seconds(missing * Fractional{rate.window}.count());
}

// Of two, the one that leaves less.
bool tighter(const Standing& a, const Standing& b) {
  return b.limit == 0 || a.remaining < b.remaining;
}

}  // namespace

std::string_view name_of(Scope scope) { return kScopeNames[index(scope)]; }
std::string_view name_of(Flow flow) { return kFlowNames[index(flow)]; }
std::string_view name_of(Stock stock) { return kStockNames[index(stock)]; }

Limiter::Limiter(Settings settings, Now now) : settings_(settings), now_(std::move(now)) {
  const Allowance none;
  active_ = settings_.key != none || settings_.tenant != none || settings_.user != none;
}

// A user is one of its tenant.
std::vector<Limiter::Entry> Limiter::entries(const Identity& who) const {
  std::vector<Entry> list;
  const auto add = [&](Scope scope, std::string name, const Allowance& usual) {
    Entry entry{scope, std::move(name), usual};
    if (special_) {
      if (const auto own = special_(scope, entry.name)) entry.allowance = *own;
    }
    list.push_back(std::move(entry));
  };
  if (!who.key.empty()) add(Scope::key, who.key, settings_.key);
  add(Scope::tenant, who.tenant, settings_.tenant);
  if (!who.user.empty()) add(Scope::user, who.tenant + '\n' + who.user, settings_.user);
  return list;
}

// Who has all that it may have is as good as unknown. Not for each new name: that takes a while.
void Limiter::forget_full() {
  const auto now = now_();
  if (now - forgotten_ < std::chrono::seconds{1}) return;
  forgotten_ = now;
  std::erase_if(accounts_, [&](const auto& row) {
    return std::all_of(row.second.begin(), row.second.end(), [&](const Bucket& one) {
      return !one.used || (one.full <= now && one.untold == 0);
    });
  });
}

std::string Limiter::account_name(const Entry& entry) {
  std::string name = full_name(entry.scope, entry.name);
  if (!accounts_.contains(name) && accounts_.size() >= settings_.names) {
    forget_full();
    // Names that clients choose must not fill the memory.
    if (accounts_.size() >= settings_.names) name = full_name(entry.scope, {});
  }
  return name;
}

Limiter::Bucket& Limiter::bucket(const Entry& entry, Flow flow) {
  return accounts_[account_name(entry)][index(flow)];
}

void Limiter::fill(Bucket& bucket, const Rate& rate) const {
  const auto now = now_();
  const auto most = static_cast<double>(rate.amount);
  if (!std::exchange(bucket.used, true)) {
    bucket.level = most;
  } else {
    const double passed = Fractional{now - bucket.at} / Fractional{rate.window};
    bucket.level = std::min(most, bucket.level + passed * most);
  }
  bucket.at = now;
}

void Limiter::foresee(Bucket& bucket, const Rate& rate) {
  const double missing = 1 - bucket.level / static_cast<double>(rate.amount);
  bucket.full = bucket.at + std::chrono::duration_cast<Clock::duration>(missing * rate.window);
}

Standing Limiter::stand(Bucket& bucket, const Rate& rate, double wanted) const {
  fill(bucket, rate);
  const double have = bucket.level;
  const double each = Fractional{rate.window}.count() / static_cast<double>(rate.amount);
  Standing standing;
  standing.limit = rate.amount;
  standing.window = rate.window;
  standing.remaining = whole(have);
  standing.reset = until_full(rate, have);
  standing.retry = whole_seconds((wanted - have) * each);
  return standing;
}

void Limiter::refuse(const Identity& who, const Entry& entry, std::string_view what,
                     const Standing& standing) const {
  if (on_exceeded_) on_exceeded_(who, entry.scope, what);
  std::string text = "Too many ";
  text.append(what).append(" of this ").append(name_of(entry.scope)).append(": ");
  text += std::to_string(standing.limit);
  if (standing.window.count() == 0) {
    text += " at a time; end some of them";
  } else {
    text += " in " + std::to_string(standing.window.count()) + " s; try again in " +
            std::to_string(standing.retry.count()) + " s";
  }
  throw Exceeded{text, what, standing};
}

Standing Limiter::take(const Identity& who, Flow flow, std::uint64_t amount) {
  Standing tightest;
  const auto wanted = static_cast<double>(amount);
  for (const Entry& entry : entries(who)) {
    const Rate& rate = entry.allowance.*kRates[index(flow)];
    if (rate.amount == 0) continue;
    Bucket& its = bucket(entry, flow);
    Standing standing = stand(its, rate, wanted);
    if (its.level < wanted) refuse(who, entry, name_of(flow), standing);
    standing.remaining = whole(its.level - wanted);
    standing.reset = until_full(rate, its.level - wanted);
    if (tighter(standing, tightest)) tightest = standing;
  }
  charge(who, flow, amount);
  return tightest;
}

void Limiter::check(const Identity& who, Flow flow) {
  for (const Entry& entry : entries(who)) {
    const Rate& rate = entry.allowance.*kRates[index(flow)];
    if (rate.amount == 0) continue;
    Bucket& its = bucket(entry, flow);
    const Standing standing = stand(its, rate, 1);
    if (its.level < 1) refuse(who, entry, name_of(flow), standing);
  }
}

void Limiter::charge(const Identity& who, Flow flow, std::uint64_t amount) {
  for (const Entry& entry : entries(who)) {
    const Rate& rate = entry.allowance.*kRates[index(flow)];
    if (rate.amount == 0) continue;
    const std::string name = account_name(entry);
    Bucket& its = accounts_[name][index(flow)];
    fill(its, rate);
    its.level -= static_cast<double>(amount);
    foresee(its, rate);
    if (used_ && amount > 0) note_taken(name, flow, rate, static_cast<double>(amount));
  }
}

void Limiter::hold(const Identity& who, Stock stock) {
  for (const Entry& entry : entries(who)) {
    const std::uint64_t most = entry.allowance.*kCounts[index(stock)];
    if (most == 0) continue;
    const std::string name = full_name(entry.scope, entry.name);
    if (used_) note_counted(name, entry, stock);
    const auto found = held_.find(name);
    const std::uint64_t here = found == held_.end() ? 0 : found->second[index(stock)];
    if (here + held_elsewhere(name, stock) < most) continue;
    Standing standing;
    standing.limit = most;
    standing.retry = kHeldRetry;
    refuse(who, entry, name_of(stock), standing);
  }
  count(who, stock);
}

// Also for who has no limit: it may get one while they are held.
void Limiter::count(const Identity& who, Stock stock) {
  for (const Entry& entry : entries(who)) {
    const std::string name = full_name(entry.scope, entry.name);
    ++held_[name][index(stock)];
    if (used_) note_counted(name, entry, stock);
  }
}

void Limiter::release(const Identity& who, Stock stock) {
  for (const Entry& entry : entries(who)) {
    const std::string name = full_name(entry.scope, entry.name);
    const auto found = held_.find(name);
    TB_ASSERT(found != held_.end() && found->second[index(stock)] > 0);
    --found->second[index(stock)];
    if (found->second == Held{}) held_.erase(found);
    if (used_) note_counted(name, entry, stock);
  }
}

}  // namespace tb::limits
