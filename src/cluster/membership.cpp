// SPDX-License-Identifier: Apache-2.0
#include "cluster/membership.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/boottime.h"
#include "base/error.h"
#include "base/id.h"
#include "base/log.h"
#include "cluster/scripts.h"

namespace tb::cluster {
namespace {

// Percent of the lease, from the moment when its renewal was sent: docs/cluster.md has the table.
constexpr unsigned kBeat = 20;
constexpr unsigned kServe = 75;
constexpr unsigned kFreeze = 80;
constexpr unsigned kEnd = 90;

redis::Settings in_time(redis::Settings settings, Milliseconds lease) {
  settings.answer = settings.connect = lease * kBeat / 100;
  settings.first_retry = lease / 100;
  settings.last_retry = lease / 10;
  return settings;
}

}  // namespace

Membership::Membership(asio::any_io_executor executor, Settings settings)
    : executor_(executor),
      settings_(std::move(settings)),
      redis_(executor, in_time(settings_.redis, settings_.lease)),
      wake_(executor),
      to_release_(executor),
      tasks_(executor, [](const std::string&, std::exception_ptr) {}) {
  load_epoch();
}

void Membership::open(Worker worker) {
  worker_ = std::move(worker);
  // What an earlier server left, which knew no lease, has this long to get one.
  const Boot now = boottime_ms();
  const auto after = [&](unsigned percent) {
    return now + static_cast<Boot>(part(percent).count());
  };
  worker_.hold_sandboxes(after(kFreeze), after(kEnd), true);
  redis_.open([this] {
    log(redis_.connected() ? LogLevel::info : LogLevel::warning,
        redis_.connected() ? "redis_connected" : "redis_lost", {{"problem", redis_.problem()}});
    woken_ = true;
    wake_.notify_all();
    to_release_.notify_all();
  });
  tasks_.spawn("lease", [this] { return live(); });
  tasks_.spawn("releases", [this] { return tell_releases(); });
}

awaitable<void> Membership::close() {
  co_await tasks_.close();
  co_await redis_.close();
}

void Membership::load_epoch() {
  std::ifstream file{settings_.epoch_file};
  file >> epoch_;
  resuming_ = !epoch_.empty();
  if (!resuming_) begin_life();
}

void Membership::save_epoch() const {
  const std::string next = settings_.epoch_file + ".new";
  {
    std::ofstream file{next};
    file << epoch_ << "\n";
  }
  std::error_code problem;
  std::filesystem::rename(next, settings_.epoch_file, problem);
  if (problem) log(LogLevel::warning, "epoch_not_saved", {{"error", problem.message()}});
}

void Membership::begin_life() {
  epoch_ = make_uuid().substr(0, 18);
  resuming_ = false;
  registered_ = false;
}

std::string Membership::about_us() const {
  Load load = worker_.load();
  if (!restored_ || draining_) load.capacity = 0;  // nothing new for us
  return settings_.url + " " + std::to_string(load.capacity) + " " + std::to_string(load.used) +
         " " + settings_.version;
}

awaitable<void> Membership::live() {
  for (;;) {
    woken_ = false;
    try {
      co_await beat();
    } catch (const Error& error) {
      log(LogLevel::debug, "lease_not_renewed", {{"error", error.what()}});
    }
    auto woken = [this] { return woken_; };
    co_await wake_.until(woken, part(kBeat));
  }
}

awaitable<void> Membership::beat() {
  if (!redis_.connected()) co_return co_await ask_peers();
  if (!registered_) {
    const bool done = co_await enlist();
    if (!done) co_return;
  }
  co_await renew();
}

// The record says at once that we know everybody, so that others need not wait for longer when we
// end right after this. That is true before it matters: nobody asks peers, and nothing is extended
// by what they say, until a renewal has told who they are.
awaitable<bool> Membership::enlist() {
  renewed_ = 0;
  std::vector<std::string> keys{kWorkers, kMembers};
  std::vector<std::string> arguments{settings_.id, epoch_, about_us(),
                                     resuming_ ? "resume" : "new"};
  const redis::Reply reply =
      co_await redis_.run(scripts::enlist(), std::move(keys), std::move(arguments));
  if (reply.at(0) == "over") {
    begin_life();
    co_return co_await enlist();
  }
  if (reply.at(0) == "taken") {
    if (!watched_.contains(settings_.id)) {
      log(LogLevel::warning, "worker_name_taken",
          {{"worker", settings_.id}, {"record", reply.at(1)}});
    }
    std::map<std::string, std::string> one{{settings_.id, reply.at(1)}};
    co_await watch(std::move(one));
    co_return false;
  }
  watched_.clear();
  registered_ = true;
  joined_ = std::stoull("0" + reply.at(1));
  view_ = std::stoull("0" + reply.at(2));
  save_epoch();
  log(LogLevel::info, "worker_registered",
      {{"worker", settings_.id}, {"epoch", epoch_}, {"resumed", resuming_ ? "yes" : "no"}});
  co_return true;
}

awaitable<void> Membership::renew() {
  const Boot sent = boottime_ms();
  std::vector<std::string> keys{kWorkers, kMembers, kRun};
  std::vector<std::string> arguments{settings_.id, epoch_, std::to_string(view_), about_us()};
  const redis::Reply reply =
      co_await redis_.run(scripts::renew(), std::move(keys), std::move(arguments));
  if (reply.at(0) != "renewed") {
    // Reaped, or Redis has lost its data. Who was never late can't have been reaped.
    restored_ = restored_ && sent < served_until_;
    log(LogLevel::warning, "lease_lost",
        {{"epoch", epoch_}, {"sessions", restored_ ? "kept" : "to be claimed again"}});
    begin_life();
    woken_ = true;
    co_return;
  }
  if (!restored_as_.starts_with(redis_.run_id()) && sent >= served_until_) restored_ = false;
  renewed_ = sent;
  told_alone_ = false;
  view_ = std::stoull("0" + reply.at(1));
  std::map<std::string, std::string> records = pairs_of(reply, 3);
  records.erase(settings_.id);
  peers_.clear();
  for (const auto& [id, text] : records) {
    const std::optional<Record> record = parse_record(text);
    peers_[id] = record.value_or(Record{});
  }
  if (restored_) extend(sent);
  const bool before = restored_;
  co_await mind_run(reply.at(2));
  if (restored_ && !before) extend(sent);
  co_await watch(std::move(records));
}

void Membership::extend(Boot from) {
  const auto after = [&](unsigned percent) {
    return from + static_cast<Boot>(part(percent).count());
  };
  served_until_ = after(kServe);
  worker_.hold_sandboxes(after(kFreeze), after(kEnd), false);
}

void Membership::check_lease() const {
  if (restored_ && boottime_ms() < served_until_) return;
  throw Error{
      Code::unavailable,
      "this worker has no lease at the moment: it can't reach Redis, or has just come back"};
}

Milliseconds Membership::lease_left() const {
  const Boot now = boottime_ms();
  return Milliseconds{restored_ && served_until_ > now ? served_until_ - now : 0};
}

void Membership::check_open() const {
  check_lease();
  if (draining_) {
    throw Error{Code::unavailable, "this worker is being drained: no new sessions here"};
  }
  if (!redis_.connected()) {
    throw Error{Code::unavailable, "no new sessions while Redis can't be reached"};
  }
  if (open_run_.empty() || open_run_ != redis_.run_id()) {
    throw Error{Code::unavailable,
                "no new sessions yet: Redis was restarted, and the workers are telling it again "
                "what they have"};
  }
}

bool Membership::confirm_connected() {
  if (connected()) return true;
  watched_.clear();
  rebuilding_run_.clear();
  return false;
}

}  // namespace tb::cluster
