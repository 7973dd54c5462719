// SPDX-License-Identifier: Apache-2.0
#include "cluster/shared_limits.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace tb::cluster {
namespace {

constexpr std::size_t kBatch = 500;  // names in one script: about a millisecond of Redis
constexpr unsigned kBatches = 10;    // at a time; what is beyond waits for the next

// keys: a bucket for each that something was taken of, then a hash for each name that something is
// held under; worker, its time to live in ms, number of buckets; of each bucket its size, window in
// ms, what was taken, ms since that began; of each name the counts. {level, …, sessions, processes,
// …}: what is left of each bucket, and what other workers hold.
//
// What was taken counts as taken when it began, so that a bucket of which no more is taken than
// comes back stays full.
const redis::Script& share() {
  static const redis::Script script{R"(
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local buckets = tonumber(ARGV[3])
local answer = {}
local arg = 4
for i = 1, buckets do
  local most, window = tonumber(ARGV[arg]), tonumber(ARGV[arg + 1])
  local taken, ago = tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3])
  arg = arg + 4
  local level, at = most, 0
  local old = redis.call('GET', KEYS[i])
  if old then
    local known, since = string.match(old, '^(%S+) (%S+)$')
    level, at = math.min(most, tonumber(known)), math.min(now, tonumber(since))
  end
  local began = math.max(at, now - ago)
  level = math.min(most, level + (began - at) * most / window) - taken
  level = math.min(most, level + (now - began) * most / window)
  local left = math.ceil((most - level) * window / most) + 1000
  redis.call('SET', KEYS[i], string.format('%.3f %.0f', level, now),
             'PX', string.format('%.0f', math.min(left, 2592000000)))
  answer[#answer + 1] = string.format('%.3f', level)
end
for i = buckets + 1, #KEYS do
  local sessions, processes = ARGV[arg], ARGV[arg + 1]
  arg = arg + 2
  if sessions == '0' and processes == '0' then
    redis.call('HDEL', KEYS[i], ARGV[1])
  else
    local ends = string.format('%.0f', now + ARGV[2])
    redis.call('HSET', KEYS[i], ARGV[1], table.concat({sessions, processes, ends}, ' '))
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
  local others = {0, 0}
  local rows = redis.call('HGETALL', KEYS[i])
  for j = 1, #rows, 2 do
    local s, p, ends = string.match(rows[j + 1], '^(%S+) (%S+) (%S+)$')
    if tonumber(ends) < now then
      redis.call('HDEL', KEYS[i], rows[j])
    elseif rows[j] ~= ARGV[1] then
      others = {others[1] + s, others[2] + p}
    end
  end
  answer[#answer + 1] = string.format('%.0f', others[1])
  answer[#answer + 1] = string.format('%.0f', others[2])
end
return answer
)"};
  return script;
}

// They share the hash tag of the directory: a script needs all of them in one place.
std::string bucket_key(const limits::Limiter::Taken& taken) {
  return "{tb}:limit:" + std::string{limits::name_of(taken.flow)} + ":" + taken.name;
}
std::string count_key(const std::string& name) { return "{tb}:held:" + name; }

std::string text_of(double amount) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, amount, std::chars_format::fixed, 3).ptr;
  return {text, end};
}

template <class Number>
std::optional<Number> number_in(const std::string& text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data(), end, value);
  if (text.empty() || problem != std::errc{} || at != end) return std::nullopt;
  return value;
}

Milliseconds interval_of(Milliseconds lease) { return std::min<Milliseconds>(1s, lease / 5); }

}  // namespace

SharedLimits::SharedLimits(asio::any_io_executor executor, Settings settings)
    : executor_(executor),
      settings_(std::move(settings)),
      redis_(executor, settings_.redis),
      wake_(executor),
      tasks_(executor, [](const std::string&, std::exception_ptr) {}) {}

void SharedLimits::open(limits::Limiter& limiter) {
  if (!limiter.active()) return;
  opened_ = true;
  limiter_ = &limiter;
  auto used = [this] {
    if (!std::exchange(used_, true)) wake_.notify_all();
  };
  limiter.share(std::move(used), settings_.lease);
  redis_.open();
  tasks_.spawn("shared limits", [this] { return live(); });
}

awaitable<void> SharedLimits::close() {
  if (!opened_) co_return;
  limiter_->share(nullptr, {});
  co_await tasks_.close();
  co_await redis_.close();
}

// What is held is told again before others forget it.
awaitable<void> SharedLimits::live() {
  const Milliseconds again = settings_.lease * 2 / 5;
  auto told = limits::Limiter::Clock::now();
  asio::steady_timer timer{executor_};
  for (;;) {
    auto used = [this] { return used_; };
    co_await wake_.until(used, again);
    used_ = false;
    const auto now = limits::Limiter::Clock::now();
    if (now - told >= again) {
      limiter_->tell_counts_again();
      told = now;
    }
    try {
      co_await tell_all();
    } catch (const Error& error) {
      log(LogLevel::debug, "limits_not_shared", {{"error", error.what()}});
    }
    timer.expires_after(interval_of(settings_.lease));
    co_await timer.async_wait(asio::use_awaitable);
  }
}

// What can't be told now is not told later: by then it has come back, or is told again. What is
// taken while the last batch is told waits for the next time: a busy worker would never be done.
awaitable<void> SharedLimits::tell_all() {
  for (unsigned batch = 0; batch < kBatches; ++batch) {
    const Taken taken = limiter_->take_told(kBatch);
    const Counts counts = limiter_->counts_told(kBatch - taken.size());
    if (taken.empty() && counts.empty()) co_return;
    co_await tell(taken, counts);
    if (taken.size() + counts.size() < kBatch) co_return;
  }
  used_ = true;
}

awaitable<void> SharedLimits::tell(const Taken& taken, const Counts& counts) {
  std::vector<std::string> keys;
  std::vector<std::string> arguments{settings_.worker, std::to_string(settings_.lease.count()),
                                     std::to_string(taken.size())};
  for (const auto& one : taken) {
    using std::chrono::duration_cast;
    keys.push_back(bucket_key(one));
    arguments.push_back(std::to_string(one.rate.amount));
    arguments.push_back(std::to_string(Milliseconds{one.rate.window}.count()));
    arguments.push_back(text_of(one.amount));
    arguments.push_back(std::to_string(duration_cast<Milliseconds>(one.ago).count()));
  }
  for (const auto& one : counts) {
    keys.push_back(count_key(one.name));
    for (const std::uint64_t count : one.held) arguments.push_back(std::to_string(count));
  }
  const redis::Reply reply = co_await redis_.run(share(), std::move(keys), std::move(arguments));
  hear(reply, taken, counts);
}

void SharedLimits::hear(const redis::Reply& reply, const Taken& taken, const Counts& counts) {
  std::size_t at = 0;
  for (const auto& one : taken) {
    if (const auto left = number_in<double>(reply.at(at++))) limiter_->settle(one, *left);
  }
  for (const auto& one : counts) {
    limits::Limiter::Held held{};
    for (std::uint64_t& count : held) {
      count = number_in<std::uint64_t>(reply.at(at++)).value_or(0);
    }
    limiter_->set_elsewhere(one.name, held);
  }
}

}  // namespace tb::cluster
