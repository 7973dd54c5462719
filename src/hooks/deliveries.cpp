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

// Whose turn it is: a webhook's, a tenant's, or a session's.
Turns::Item item_of(const Delivery& delivery) {
  std::string source = delivery.webhook;
  if (source.empty()) source = delivery.tenant.empty() ? delivery.session : delivery.tenant;
  return {delivery.id, std::move(source), host_of(delivery.url), delivery.size};
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
      callbacks_(settings_.callbacks),
      events_(settings_.events),
      wake_(executor),
      tasks_(executor, [](const std::string& name, std::exception_ptr) {
        log(LogLevel::debug, "task_ended", {{"task", name}});
      }) {
  if (!settings_.chance) settings_.chance = random_chance;
  metrics_.hooks_pending.read_by([this] { return static_cast<double>(pending()); });
  metrics_.hooks_pending_bytes.read_by(
      [this] { return static_cast<double>(callbacks_.bytes() + events_.bytes()); });
}

awaitable<void> Deliveries::open() {
  for (const Delivery& left : co_await outbox_.deliveries(State::pending, SIZE_MAX)) {
    if (!turns_of(left).running(left.id)) schedule(left, left.next);
  }
  if (pending() > 0) {
    log(LogLevel::info, "webhooks_resumed", {{"pending", std::to_string(pending()), true}});
  }
  tasks_.spawn("deliveries", [this] { return run(); });
  tasks_.spawn("tidy deliveries", [this] { return tidy(); });
}

awaitable<void> Deliveries::close() { co_await tasks_.close(); }

// ---- The queue in memory. ----

// Each once, however often it is asked for.
void Deliveries::schedule(const Delivery& delivery, WallTime when) {
  turns_of(delivery).add(item_of(delivery), when);
  poked_ = true;
  wake_.notify_all();
}

void Deliveries::launch(Turns& turns) {
  const WallTime now = settings_.now();
  while (const std::optional<Turns::Item> item = turns.take(now)) {
    tasks_.spawn("delivery " + item->id,
                 [this, &turns, item = *item] { return attempt(turns, item); });
  }
}

void Deliveries::look() {
  launch(events_);
  launch(callbacks_);
}

Milliseconds Deliveries::until_next() const {
  Milliseconds least = 1h;  // or until the end of one wakes us
  const WallTime now = settings_.now();
  for (const Turns* turns : {&events_, &callbacks_}) {
    const std::optional<WallTime> next = turns->next();
    if (next) least = std::min(least, std::chrono::ceil<Milliseconds>(*next - now));
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

awaitable<void> Deliveries::attempt(Turns& turns, Turns::Item item) {
  std::optional<WallTime> again;
  try {
    again = co_await try_once(item.id);
  } catch (const Error& error) {
    // The disk: what came of the attempt may be forgotten, and it is made again.
    again = settings_.now() + kStoreRetry;
    log(LogLevel::warning, "webhook_not_recorded", {{"id", item.id}, {"error", error.what()}});
  }
  turns.done(item.id);
  if (again) turns.add(item, *again);
  poked_ = true;
  wake_.notify_all();
}

awaitable<std::optional<WallTime>> Deliveries::try_once(std::string id) {
  std::optional<Delivery> delivery = co_await outbox_.find_delivery(id);
  if (!delivery || delivery->state != State::pending) co_return std::nullopt;  // removed meanwhile
  const Attempt result = co_await send_(*delivery);
  judge(*delivery, result);
  std::optional<WallTime> again;
  if (delivery->state == State::pending) again = delivery->next;
  co_await outbox_.save_delivery(std::move(*delivery));
  if (!again && ++ended_ % kTidyEvery == 0) co_await trim();
  co_return again;
}

awaitable<void> Deliveries::trim() {
  co_await outbox_.trim_deliveries(State::done, settings_.done, settings_.now());
  co_await outbox_.trim_deliveries(State::dead, settings_.dead, settings_.now());
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
      co_await trim();
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
  std::vector<Delivery> one;
  one.push_back(std::move(delivery));
  co_await enqueue_all(std::move(one));
}

void Deliveries::bury(Delivery& delivery, WallTime now) {
  delivery.state = State::dead;
  delivery.ended = now;
  delivery.error = "too many deliveries were waiting";
  metrics_.hooks[session::HookResult::dead].add();
  ++ended_;
  log(LogLevel::warning, "webhook_dead", fields_of(delivery));
}

// The places of those that have one, which is theirs from now on.
std::vector<std::size_t> Deliveries::admit(std::vector<Delivery>& deliveries) {
  const WallTime now = settings_.now();
  std::vector<std::size_t> admitted;
  for (std::size_t i = 0; i < deliveries.size(); ++i) {
    Delivery& delivery = deliveries[i];
    delivery.size = delivery.body.size();
    delivery.state = State::pending;
    delivery.next = now;
    if (delivery.webhook.empty()) delivery.created = now;  // events know when they happened
    Turns& turns = turns_of(delivery);
    if (turns.knows(delivery.id)) continue;
    const Turns::Item item = item_of(delivery);
    if (turns.has_room(item)) {
      turns.add(item, WallTime::max());
      admitted.push_back(i);
    } else {
      bury(delivery, now);
    }
  }
  return admitted;
}

awaitable<void> Deliveries::enqueue_all(std::vector<Delivery> deliveries) {
  const unsigned ended = ended_;
  const std::vector<std::size_t> admitted = admit(deliveries);
  std::vector<Delivery> rows = deliveries;
  std::vector<std::optional<State>> before;
  std::exception_ptr failure;
  try {
    before = co_await outbox_.put_deliveries(std::move(rows));
  } catch (...) {
    failure = std::current_exception();
  }
  for (const std::size_t i : admitted) {
    const bool fresh = !failure && (!before[i] || *before[i] == State::waiting);
    if (fresh) {
      schedule(deliveries[i], deliveries[i].next);
    } else {
      turns_of(deliveries[i]).remove(deliveries[i].id);
    }
  }
  if (failure) std::rethrow_exception(failure);
  if (ended / kTidyEvery != ended_ / kTidyEvery) co_await trim();
}

awaitable<void> Deliveries::give_up_waiting(std::string id,
                                            std::function<std::string(const std::string&)> change) {
  std::optional<Delivery> delivery = co_await outbox_.find_delivery(id);
  if (!delivery || delivery->state != State::waiting) co_return;
  delivery->body = change(delivery->body);
  co_await enqueue(std::move(*delivery));
}

awaitable<std::vector<Delivery>> Deliveries::list(State state, std::size_t limit, Filter filter) {
  return outbox_.deliveries(state, limit, std::move(filter));
}

awaitable<Delivery> Deliveries::get(std::string id) {
  std::optional<Delivery> delivery = co_await outbox_.find_delivery(id);
  if (!delivery) throw Error{Code::not_found, "there is no delivery " + id};
  delivery->body.clear();
  co_return std::move(*delivery);
}

awaitable<Delivery> Deliveries::replay(std::string id) {
  Delivery delivery = co_await get(id);
  if (delivery.state == State::waiting) {
    throw Error{Code::conflict, "what the delivery tells of has not happened yet"};
  }
  Turns& turns = turns_of(delivery);
  if (turns.running(id)) co_return delivery;  // being tried right now
  if (!turns.knows(id) && !turns.has_room(item_of(delivery))) {
    throw Error{Code::exhausted, "too many deliveries are waiting: try again later"};
  }
  delivery.state = State::pending;
  delivery.failures = 0;
  delivery.next = settings_.now();
  delivery.ended = {};
  Delivery saved = delivery;
  co_await outbox_.save_delivery(std::move(saved));
  schedule(delivery, delivery.next);
  co_return delivery;
}

awaitable<void> Deliveries::remove(std::string id) {
  if (!events_.remove(id)) callbacks_.remove(id);
  const bool found = co_await outbox_.remove_delivery(id);
  if (!found) throw Error{Code::not_found, "there is no delivery " + id};
}

void Deliveries::drop_webhook(const std::string& webhook) {
  for (const std::string& id : events_.waiting_of(webhook)) events_.remove(id);
}

}  // namespace tb::hooks
