// SPDX-License-Identifier: Apache-2.0
#include "hooks/deliveries.h"

#include <algorithm>
#include <random>

#include "base/error.h"
#include "base/log.h"

namespace tb::hooks {
namespace {

constexpr unsigned kTidyEvery = 64;        // ends
constexpr Milliseconds kTidyPeriod = 1h;   // or so much time
constexpr Milliseconds kStoreRetry = 30s;  // after a disk that does not take or give
constexpr int kGone = 410;

double random_chance() {
  static std::minstd_rand engine{std::random_device{}()};
  return std::uniform_real_distribution<double>{0, 1}(engine);
}

std::string host_of(const std::string& url) {
  try {
    return net::parse_url(url).host;
  } catch (const Error&) {
    return {};  // its attempt will say why not
  }
}

// A URL's path may be a secret (a receiver that knows its caller by it); its host is not.
std::vector<LogField> fields_of(const Delivery& delivery) {
  std::vector<LogField> fields{{"id", delivery.id}, {"type", delivery.type}};
  if (!delivery.session.empty()) fields.push_back({"session", delivery.session.substr(0, 12)});
  fields.push_back({"host", host_of(delivery.url)});
  fields.push_back({"attempts", std::to_string(delivery.attempts), true});
  if (delivery.status != 0) fields.push_back({"status", std::to_string(delivery.status), true});
  if (!delivery.error.empty()) fields.push_back({"error", delivery.error});
  return fields;
}

}  // namespace

Deliveries::Deliveries(asio::any_io_executor executor, Outbox& outbox, Send send,
                       session::Metrics& metrics, Settings settings)
    : outbox_(outbox),
      send_(std::move(send)),
      metrics_(metrics),
      settings_(std::move(settings)),
      wake_(executor),
      tasks_(executor, [](const std::string& name, std::exception_ptr) {
        log(LogLevel::debug, "task_ended", {{"task", name}});
      }) {
  if (!settings_.chance) settings_.chance = random_chance;
  metrics_.hooks_pending.read_by([this] { return static_cast<double>(pending_); });
}

awaitable<void> Deliveries::open() {
  for (const Delivery& left : co_await outbox_.deliveries(State::pending, SIZE_MAX)) {
    if (!running_.contains(left.id)) schedule(left.id, left.url, left.next);
  }
  if (pending_ > 0) {
    log(LogLevel::info, "webhooks_resumed", {{"pending", std::to_string(pending_), true}});
  }
  tasks_.spawn("deliveries", [this] { return run(); });
  tasks_.spawn("tidy deliveries", [this] { return tidy(); });
}

awaitable<void> Deliveries::close() { co_await tasks_.close(); }

// ---- The queue in memory. ----

// Each once, however often it is asked for.
void Deliveries::schedule(const std::string& id, const std::string& url, WallTime when) {
  unschedule(id);
  const std::string host = host_of(url);
  hosts_[host].waiting.emplace(when, id);
  places_[id] = {host, when};
  ++pending_;
  poked_ = true;
  wake_.notify_all();
}

void Deliveries::unschedule(const std::string& id) {
  const auto place = places_.find(id);
  if (place == places_.end()) return;
  const auto& [name, when] = place->second;
  const auto host = hosts_.find(name);
  host->second.waiting.erase({when, id});
  if (host->second.waiting.empty() && host->second.running == 0) hosts_.erase(host);
  places_.erase(place);
  --pending_;
}

bool Deliveries::has_room(const std::string& url) const {
  const auto host = hosts_.find(host_of(url));
  const std::size_t own =
      host == hosts_.end() ? 0 : host->second.waiting.size() + host->second.running;
  return pending_ < settings_.queue && own < settings_.queue - pending_;
}

bool Deliveries::launch_one(Host& host, const std::string& name, WallTime now) {
  if (running_.size() >= settings_.at_once || host.running >= settings_.per_host) return false;
  if (host.waiting.empty() || host.waiting.begin()->first > now) return false;
  const std::string id = host.waiting.begin()->second;
  host.waiting.erase(host.waiting.begin());
  places_.erase(id);
  ++host.running;
  running_.insert(id);
  last_host_ = name;
  tasks_.spawn("delivery " + id, [this, id, name] { return attempt(id, name); });
  return true;
}

// Each host in turn, beginning after the one that had the last turn. By name: what is started may
// end at once, and its host is forgotten.
void Deliveries::look() {
  const WallTime now = settings_.now();
  std::vector<std::string> names;
  names.reserve(hosts_.size());
  for (auto at = hosts_.upper_bound(last_host_); at != hosts_.end(); ++at) {
    names.push_back(at->first);
  }
  for (auto at = hosts_.begin(); at != hosts_.end() && at->first <= last_host_; ++at) {
    names.push_back(at->first);
  }
  for (bool more = true; more;) {
    more = false;
    for (const std::string& name : names) {
      const auto host = hosts_.find(name);
      if (host != hosts_.end()) more = launch_one(host->second, name, now) || more;
    }
  }
}

Milliseconds Deliveries::until_next() const {
  Milliseconds least = 1h;
  const WallTime now = settings_.now();
  if (running_.size() >= settings_.at_once) return least;  // the end of one wakes us
  for (const auto& [name, host] : hosts_) {
    if (host.waiting.empty() || host.running >= settings_.per_host) continue;
    least = std::min(least, std::chrono::ceil<Milliseconds>(host.waiting.begin()->first - now));
  }
  return std::max(least, 1ms);
}

awaitable<void> Deliveries::run() {
  for (;;) {
    look();
    auto poked = [this] { return std::exchange(poked_, false); };
    co_await wake_.until(poked, until_next());
  }
}

// ---- One attempt. ----

awaitable<void> Deliveries::attempt(std::string id, std::string host) {
  bool stored = true;
  try {
    co_await try_once(id);
  } catch (const Error& error) {
    // The disk: what came of the attempt may be forgotten, and it is made again.
    stored = false;
    log(LogLevel::warning, "webhook_not_recorded", {{"id", id}, {"error", error.what()}});
  }
  running_.erase(id);
  Host& place = hosts_[host];
  --place.running;
  --pending_;
  if (!stored) {
    const WallTime when = settings_.now() + kStoreRetry;
    place.waiting.emplace(when, id);
    places_[id] = {host, when};
    ++pending_;
  }
  if (place.running == 0 && place.waiting.empty()) hosts_.erase(host);
  poked_ = true;
  wake_.notify_all();
}

awaitable<void> Deliveries::try_once(std::string id) {
  std::optional<Delivery> delivery = co_await outbox_.find_delivery(id);
  if (!delivery || delivery->state != State::pending) co_return;  // removed meanwhile
  const Attempt result = co_await send_(*delivery);
  judge(*delivery, result);
  const bool again = delivery->state == State::pending;
  const std::string url = delivery->url;
  const WallTime next = delivery->next;
  co_await outbox_.save_delivery(std::move(*delivery));
  if (again) {
    schedule(id, url, next);
  } else if (++ended_ % kTidyEvery == 0) {
    co_await outbox_.trim_deliveries(State::done, settings_.done, settings_.now());
    co_await outbox_.trim_deliveries(State::dead, settings_.dead, settings_.now());
  }
}

void Deliveries::judge(Delivery& delivery, const Attempt& attempt) {
  const WallTime now = settings_.now();
  ++delivery.attempts;
  delivery.status = attempt.status;
  delivery.error = attempt.error;
  if (attempt.delivered()) {
    delivery.state = State::done;
    delivery.ended = now;
    metrics_.hooks[session::HookResult::delivered].add();
    log(LogLevel::info, "webhook_delivered", fields_of(delivery));
    return;
  }
  ++delivery.failures;
  std::optional<Milliseconds> delay;
  if (!attempt.refused && attempt.status != kGone) {
    delay =
        delay_after(settings_.schedule, delivery.failures, settings_.chance(), attempt.retry_after);
  }
  if (delay) {
    delivery.next = now + *delay;
    metrics_.hooks[session::HookResult::retried].add();
    log(LogLevel::info, "webhook_failed", fields_of(delivery));
    return;
  }
  delivery.state = State::dead;
  delivery.ended = now;
  metrics_.hooks[attempt.refused ? session::HookResult::refused : session::HookResult::dead].add();
  log(LogLevel::warning, "webhook_dead", fields_of(delivery));
}

awaitable<void> Deliveries::tidy() {
  asio::steady_timer timer{co_await asio::this_coro::executor};
  for (;;) {
    try {
      co_await outbox_.trim_deliveries(State::done, settings_.done, settings_.now());
      co_await outbox_.trim_deliveries(State::dead, settings_.dead, settings_.now());
    } catch (const Error& error) {
      log(LogLevel::warning, "webhooks_not_tidied", {{"error", error.what()}});
    }
    timer.expires_after(kTidyPeriod);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

// ---- What others ask for. ----

awaitable<std::optional<State>> Deliveries::expect(Delivery delivery) {
  delivery.state = State::waiting;
  delivery.created = settings_.now();
  co_return co_await outbox_.put_delivery(std::move(delivery));
}

awaitable<void> Deliveries::enqueue(Delivery delivery) {
  const WallTime now = settings_.now();
  delivery.created = delivery.next = now;
  delivery.state = State::pending;
  if (!has_room(delivery.url)) {
    delivery.state = State::dead;
    delivery.ended = now;
    delivery.error = "too many deliveries were waiting";
    metrics_.hooks[session::HookResult::dead].add();
    log(LogLevel::warning, "webhook_dead", fields_of(delivery));
  }
  const std::string id = delivery.id;
  const std::string url = delivery.url;
  const bool alive = delivery.state == State::pending;
  const std::optional<State> before = co_await outbox_.put_delivery(std::move(delivery));
  if (alive && (!before || *before == State::waiting)) schedule(id, url, now);
}

awaitable<void> Deliveries::give_up_waiting(std::string id,
                                            std::function<std::string(const std::string&)> change) {
  std::optional<Delivery> delivery = co_await outbox_.find_delivery(id);
  if (!delivery || delivery->state != State::waiting) co_return;
  delivery->body = change(delivery->body);
  co_await enqueue(std::move(*delivery));
}

awaitable<std::vector<Delivery>> Deliveries::list(State state, std::size_t limit) {
  return outbox_.deliveries(state, limit);
}

awaitable<Delivery> Deliveries::replay(std::string id) {
  std::optional<Delivery> delivery = co_await outbox_.find_delivery(id);
  if (!delivery) throw Error{Code::not_found, "there is no delivery " + id};
  if (delivery->state == State::waiting) {
    throw Error{Code::conflict, "what the delivery tells of has not happened yet"};
  }
  if (running_.contains(id)) co_return *delivery;  // being tried right now
  delivery->state = State::pending;
  delivery->failures = 0;
  delivery->next = settings_.now();
  delivery->ended = {};
  Delivery saved = *delivery;
  co_await outbox_.save_delivery(std::move(saved));
  if (!running_.contains(id)) schedule(id, delivery->url, delivery->next);
  co_return *delivery;
}

awaitable<void> Deliveries::remove(std::string id) {
  unschedule(id);
  const bool found = co_await outbox_.remove_delivery(id);
  if (!found) throw Error{Code::not_found, "there is no delivery " + id};
}

}  // namespace tb::hooks
