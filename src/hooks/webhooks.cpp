// SPDX-License-Identifier: Apache-2.0
#include "hooks/webhooks.h"

#include <algorithm>

#include "base/error.h"
#include "base/id.h"
#include "base/iso8601.h"
#include "base/log.h"
#include "hooks/naming.h"
#include "hooks/signing.h"

namespace tb::hooks {
namespace json = boost::json;
namespace {

using session::Told;

constexpr std::size_t kBatch = 512;
constexpr std::size_t kMostReplayed = 1000;  // of each state: as many as are kept
// Events of the same moment are stored in any order: so much before the newest that is stored may
// one be missing.
constexpr auto kBlur = 10s;
constexpr std::uint64_t kLogLost = 1000;  // after the first, a line for so many

bool asks_for(const Webhook& webhook, std::string_view name) {
  return webhook.events.empty() ||
         std::find(webhook.events.begin(), webhook.events.end(), name) != webhook.events.end();
}

// An earlier server has told it that, or it was not there yet.
bool told_before(const Webhook& webhook, const Told& told) {
  return told.found && (told.at < webhook.created || told.at + kBlur < webhook.told);
}

std::string body_of(std::string_view type, WallTime at, const std::string& event,
                    std::uint64_t sequence, const json::object& data) {
  json::object body{{"type", type}, {"timestamp", iso8601_ms(at)}, {"event_id", event}};
  body["sequence"] = sequence;
  body["data"] = data;
  return json::serialize(body);
}

// While it lives, one more of the tenant's is counted.
struct Counted {
  Counted(std::map<std::string, std::size_t>& counts, std::string of)
      : all(counts), tenant(std::move(of)) {
    ++all[tenant];
  }
  ~Counted() {
    if (--all[tenant] == 0) all.erase(tenant);
  }
  Counted(const Counted&) = delete;
  std::map<std::string, std::size_t>& all;
  const std::string tenant;
};

}  // namespace

Webhooks::Webhooks(asio::any_io_executor executor, Outbox& outbox, Deliveries& deliveries,
                   session::Metrics& metrics, Settings settings)
    : outbox_(outbox),
      deliveries_(deliveries),
      metrics_(metrics),
      settings_(std::move(settings)),
      wake_(executor),
      done_(executor),
      tasks_(executor, [](const std::string& name, std::exception_ptr) {
        log(LogLevel::debug, "task_ended", {{"task", name}});
      }) {
  metrics_.webhooks.read_by([this] {
    const auto active = [](const Webhook& webhook) { return webhook.active; };
    return static_cast<double>(std::count_if(webhooks_.begin(), webhooks_.end(), active));
  });
}

awaitable<void> Webhooks::open() {
  webhooks_ = co_await outbox_.webhooks();
  note_wanted();
  tasks_.spawn("webhook events", [this] { return pump(); });
}

awaitable<void> Webhooks::close() {
  co_await settle();
  co_await tasks_.close();
  lost_ += told_ - stored_;
  if (lost_ == 0) co_return;
  log(LogLevel::error, "webhook_events_lost", {{"count", std::to_string(lost_), true}});
}

void Webhooks::note_wanted() {
  wanted_.reset();
  for (const Webhook& webhook : webhooks_) {
    if (!webhook.active) continue;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (asks_for(webhook, session::kHappeningNames[i])) wanted_.set(i);
    }
  }
}

// ---- From an event to the queue. ----

Delivery Webhooks::make(const Webhook& webhook, const Told& told, const std::string& event) {
  Delivery delivery;
  delivery.id = "msg_" + name_after(event + "\n" + webhook.id);
  delivery.type = session::name_of(told.what);
  delivery.url = webhook.url;
  delivery.tenant = webhook.tenant;
  delivery.webhook = webhook.id;
  delivery.session = told.session;
  delivery.thread = told.thread;
  delivery.created = told.at;
  delivery.sequence = webhook.sequence;
  // What is found comes in any order, and says nothing about what else there is to find.
  if (!told.found) delivery.told = told.at;
  delivery.body = body_of(delivery.type, told.at, event, webhook.sequence, told.data);
  return delivery;
}

void Webhooks::happened(const Told& told) {
  std::string event;
  const std::string_view name = session::name_of(told.what);
  for (Webhook& webhook : webhooks_) {
    if (!webhook.active || webhook.tenant != told.tenant || !asks_for(webhook, name)) continue;
    if (told_before(webhook, told)) continue;
    if (event.empty()) {
      event = "evt_" +
              name_after(std::string{name} + "\n" + (told.key.empty() ? make_uuid() : told.key));
    }
    ++webhook.sequence;
    push(make(webhook, told, event));
  }
}

void Webhooks::push(Delivery delivery) {
  if (buffer_.size() >= settings_.queue ||
      buffered_ + delivery.body.size() > settings_.bytes.count) {
    return lose();
  }
  buffered_ += delivery.body.size();
  buffer_.push_back(std::move(delivery));
  ++told_;
  wake_.notify_all();
}

void Webhooks::lose() {
  metrics_.hook_events_lost.add();
  if (lost_++ % kLogLost != 0) return;
  log(LogLevel::error, "webhook_events_lost", {{"count", std::to_string(lost_), true}});
}

awaitable<void> Webhooks::pump() {
  asio::steady_timer timer{co_await asio::this_coro::executor};
  for (;;) {
    while (buffer_.empty()) co_await wake_.wait();
    const std::size_t count = std::min(buffer_.size(), kBatch);
    const auto end = buffer_.begin() + static_cast<std::ptrdiff_t>(count);
    const std::vector<Delivery> batch{buffer_.begin(), end};
    const bool stored = co_await store(batch);
    failing_ = !stored;
    if (stored) {
      for (const Delivery& one : batch) buffered_ -= one.body.size();
      buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(count));
      stored_ += count;
      metrics_.hook_events.add(count);
    }
    done_.notify_all();
    if (stored) continue;
    timer.expires_after(settings_.retry);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

awaitable<bool> Webhooks::store(const std::vector<Delivery>& batch) {
  try {
    std::vector<Delivery> copy = batch;
    co_await deliveries_.enqueue_all(std::move(copy));
    co_return true;
  } catch (const Error& error) {
    if (!failing_) {
      log(LogLevel::warning, "webhook_not_recorded",
          {{"events", std::to_string(buffer_.size()), true}, {"error", error.what()}});
    }
  }
  co_return false;
}

awaitable<void> Webhooks::settle() {
  const std::uint64_t wanted = told_;
  auto settled = [this, wanted] { return stored_ >= wanted || failing_; };
  // A disk that hangs is waited for once, and not by everybody.
  if (!co_await done_.until(settled, settings_.patience)) failing_ = true;
}

// ---- Who wants to be told. ----

void Webhooks::check(const Webhook& webhook) const {
  net::check_destination(net::parse_url(webhook.url), settings_.rules);
  for (const std::string& name : webhook.events) {
    if (session::find_happening(name)) continue;
    std::string known;
    for (const std::string_view one : session::kHappeningNames) {
      known.append(known.empty() ? "" : ", ").append(one);
    }
    throw Error{Code::invalid, "there is no event \"" + name + "\", there are " + known};
  }
}

awaitable<Webhook> Webhooks::create(Webhook like) {
  check(like);
  const auto own = [&](const Webhook& one) { return one.tenant == like.tenant; };
  const auto kept = std::count_if(webhooks_.begin(), webhooks_.end(), own);
  const Counted counted{making_, like.tenant};
  const std::size_t count = static_cast<std::size_t>(kept) + making_[like.tenant] - 1;
  if (webhooks_.size() >= settings_.in_all || count >= settings_.per_tenant) {
    throw Error{Code::conflict, "there are " + std::to_string(count) +
                                    " webhooks already: remove one that is not needed"};
  }
  like.id = "wh_" + name_after(make_uuid());
  like.secret = (like.secret.empty() ? Secret::make() : Secret::parse(like.secret)).text();
  like.created = like.told = settings_.now();
  like.sequence = 0;
  Webhook stored = like;
  co_await outbox_.put_webhook(std::move(stored));
  webhooks_.push_back(like);
  note_wanted();
  co_return like;
}

std::vector<Webhook> Webhooks::list(const std::string& tenant) const {
  std::vector<Webhook> own;
  for (const Webhook& webhook : webhooks_) {
    if (webhook.tenant == tenant) own.push_back(webhook);
  }
  return own;
}

const Webhook* Webhooks::find(const std::string& id) const {
  const auto same = [&](const Webhook& webhook) { return webhook.id == id; };
  const auto found = std::find_if(webhooks_.begin(), webhooks_.end(), same);
  return found == webhooks_.end() ? nullptr : &*found;
}

Webhook Webhooks::get(const std::string& tenant, const std::string& id) const {
  const Webhook* found = find(id);
  if (!found || found->tenant != tenant) {
    throw Error{Code::not_found, "there is no webhook " + id};
  }
  return *found;
}

awaitable<Webhook> Webhooks::change(Webhook webhook, std::optional<std::string> secret) {
  check(webhook);
  if (secret) {
    const auto now = std::chrono::system_clock::to_time_t(settings_.now());
    Secret next = secret->empty() ? Secret::make() : Secret::parse(*secret);
    webhook.secret = Secrets::parse(webhook.secret).changed_to(std::move(next), now).text();
  }
  Webhook stored = webhook;
  co_await outbox_.put_webhook(std::move(stored));
  for (Webhook& one : webhooks_) {
    if (one.id != webhook.id) continue;
    webhook.sequence = one.sequence;
    one = webhook;
  }
  note_wanted();
  co_return webhook;
}

awaitable<void> Webhooks::remove(std::string tenant, std::string id) {
  get(tenant, id);
  co_await outbox_.remove_webhook(id);
  std::erase_if(webhooks_, [&](const Webhook& webhook) { return webhook.id == id; });
  deliveries_.drop_webhook(id);
  note_wanted();
}

awaitable<Attempt> Webhooks::test(std::string tenant, std::string id) {
  const Webhook webhook = get(tenant, id);
  const auto turns = testing_.find(tenant);
  if (turns != testing_.end() && turns->second >= settings_.tests_at_once) {
    throw Error{Code::exhausted, "other webhooks are being tested: try again in some seconds"};
  }
  const Counted counted{testing_, tenant};
  const std::string event = "evt_" + name_after(make_uuid());
  Delivery delivery;
  delivery.id = "msg_" + name_after(event + "\n" + webhook.id);
  delivery.type = kTestEvent;
  delivery.url = webhook.url;
  delivery.tenant = webhook.tenant;
  delivery.webhook = webhook.id;
  const json::object data{{"webhook_id", webhook.id}};
  delivery.body = body_of(kTestEvent, settings_.now(), event, 0, data);
  co_return co_await deliveries_.try_now(std::move(delivery));
}

awaitable<Webhooks::Replayed> Webhooks::replay(std::string tenant, std::string id, WallTime since,
                                               bool done) {
  get(tenant, id);
  std::vector<State> states{State::dead};
  if (done) states.push_back(State::done);
  std::vector<Delivery> rows;
  for (const State state : states) {
    Filter filter;
    filter.webhook = id;
    filter.since = since;
    std::vector<Delivery> some = co_await deliveries_.list(state, kMostReplayed, std::move(filter));
    rows.insert(rows.end(), some.begin(), some.end());
  }
  std::sort(rows.begin(), rows.end(),
            [](const Delivery& a, const Delivery& b) { return a.created < b.created; });
  Replayed result;
  for (const Delivery& row : rows) {
    try {
      co_await deliveries_.replay(row.id);
      ++result.count;
    } catch (const Error& error) {
      if (error.code() == Code::not_found) continue;  // forgotten meanwhile
      if (error.code() != Code::exhausted) throw;
      result.all = false;
      break;
    }
  }
  co_return result;
}

}  // namespace tb::hooks
