// SPDX-License-Identifier: Apache-2.0
#include "cluster/fleet.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/boottime.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sha256.h"
#include "net/url.h"

namespace tb::cluster {
namespace {

namespace json = boost::json;

constexpr std::uint64_t kAvoided = 2000;  // ms
constexpr Milliseconds kProbePeriod = 2s;
constexpr Milliseconds kAnswer = 2s;

redis::Settings in_time(redis::Settings settings, Milliseconds lease) {
  settings.answer = settings.connect = std::max(lease / 5, Milliseconds{100});
  settings.last_retry = lease / 10;
  return settings;
}

// Its sessions are others' from here on, though it may be that it only sleeps.
void give_up(Worker& worker) {
  log(LogLevel::warning, "worker_gone",
      {{"worker", worker.id}, {"requests", std::to_string(worker.under_way.size()), true}});
  worker.gone = true;
  for (http::Relay::Passage* passage : worker.under_way) passage->abort();
}

}  // namespace

Fleet::Fleet(asio::any_io_executor executor, Settings settings)
    : executor_(executor),
      settings_(std::move(settings)),
      resolver_(executor, {.servers = {}, .limit = kAnswer}),
      wake_(executor),
      tasks_(executor, [](const std::string&, std::exception_ptr) {}) {
  if (settings_.redis) {
    redis_ = std::make_unique<redis::Client>(executor, in_time(*settings_.redis, settings_.lease));
  }
  for (const std::string& url : settings_.urls) {
    auto worker = std::make_shared<Worker>();
    worker->id = worker->url = url;
    listed_[url] = worker;
  }
}

awaitable<void> Fleet::open() {
  if (redis_) {
    redis_->open([this] {
      log(redis_->connected() ? LogLevel::info : LogLevel::warning,
          redis_->connected() ? "redis_connected" : "redis_lost", {{"problem", redis_->problem()}});
      woken_ = true;
      wake_.notify_all();
    });
    auto known = [this] { return redis_->connected(); };
    co_await wake_.until(known, kAnswer);
    if (redis_->connected()) co_await read_registry();
  }
  co_await probe_all();
  tasks_.spawn("follow", [this] { return follow(); });
}

awaitable<void> Fleet::close() {
  co_await tasks_.close();
  if (redis_) co_await redis_->close();
}

awaitable<void> Fleet::follow() {
  const Milliseconds period = redis_ ? std::min(settings_.lease / 5, kProbePeriod) : kProbePeriod;
  for (;;) {
    auto woken = [this] { return woken_; };
    co_await wake_.until(woken, period);
    woken_ = false;
    try {
      if (directory_connected()) co_await read_registry();
      co_await probe_all();
    } catch (const Error& error) {
      log(LogLevel::debug, "workers_not_read", {{"error", error.what()}});
    }
  }
}

awaitable<void> Fleet::read_registry() {
  redis::Command command{"HGETALL", kWorkers};
  const redis::Reply reply = co_await redis_->call(std::move(command));
  const std::map<std::string, std::string> records = pairs_of(reply, 0);
  const std::uint64_t now = boottime_ms();
  std::erase_if(workers_, [&](const auto& one) {
    const bool gone = !one.second->text.empty() && !records.contains(one.first);
    if (gone) give_up(*one.second);
    return gone;
  });
  for (const auto& [id, text] : records) {
    const std::optional<Record> record = parse_record(text);
    if (!record) continue;
    std::shared_ptr<Worker>& worker = workers_[id];
    if (!worker || worker->record.epoch != record->epoch) {
      if (worker) give_up(*worker);
      worker = std::make_shared<Worker>();
      worker->id = id;
    }
    if (worker->text != text) {
      worker->text = text;
      worker->seen = now;
      worker->begun = 0;
    }
    if (worker->url != record->url) worker->endpoint.reset();
    worker->url = record->url;
    worker->record = *record;
    worker->healthy = now - worker->seen < static_cast<std::uint64_t>(settings_.lease.count());
  }
}

// Those that are only named: how they are has to be asked.
awaitable<void> Fleet::probe_all() {
  for (const auto& [url, worker] : listed_) {
    const auto same = [&](const auto& one) {
      return one.second->url == url && !one.second->text.empty();
    };
    if (std::any_of(workers_.begin(), workers_.end(), same)) continue;  // it is in the registry
    co_await probe(worker);
  }
}

awaitable<void> Fleet::probe(std::shared_ptr<Worker> worker) {
  try {
    const http::Response answer = co_await get(worker, "/health");
    json::error_code error;
    const json::value body = json::parse(answer.body, error);
    const json::object* object = error ? nullptr : body.if_object();
    worker->healthy = answer.status == 200 && object;
    if (!worker->healthy) co_return;
    worker->begun = 0;
    worker->record.used = object->at("pool").at("allocated").to_number<std::uint64_t>();
    worker->record.capacity = object->at("pool").at("max_capacity").to_number<std::uint64_t>();
    const std::string id{object->at("worker_id").as_string()};
    // Workers that were never given a name have all the same one.
    if (id != "standalone") worker->id = id;
  } catch (const std::exception&) {
    worker->healthy = false;
  }
  workers_[worker->id] = worker;
}

std::vector<std::shared_ptr<Worker>> Fleet::all() const {
  std::vector<std::shared_ptr<Worker>> list;
  for (const auto& [id, worker] : workers_) list.push_back(worker);
  return list;
}

std::shared_ptr<Worker> Fleet::find(const std::string& id) const {
  const auto found = workers_.find(id);
  return found == workers_.end() ? nullptr : found->second;
}

bool Fleet::usable(const Worker& worker) const {
  return worker.healthy && worker.avoided_until <= boottime_ms();
}

std::shared_ptr<Worker> Fleet::choose(const std::string& thread) {
  std::shared_ptr<Worker> best;
  if (!redis_ && !thread.empty()) {
    // The highest of all hashes of the thread with a worker: it stays when others come and go.
    std::array<std::uint8_t, 32> highest{};
    for (const auto& [url, worker] : listed_) {
      const auto hash = sha256(url + " " + thread);
      if (best && hash <= highest) continue;
      best = worker;
      highest = hash;
    }
    return best && usable(*best) ? best : nullptr;
  }
  const auto load = [](const Worker& one) {
    const auto capacity = static_cast<double>(std::max<std::uint64_t>(one.record.capacity, 1));
    return static_cast<double>(one.record.used + one.begun) / capacity;
  };
  for (const auto& [id, worker] : workers_) {
    if (!usable(*worker) || worker->record.capacity == 0) continue;
    if (!best || load(*worker) < load(*best)) best = worker;
  }
  return best;
}

std::shared_ptr<Worker> Fleet::any() {
  std::vector<std::shared_ptr<Worker>> list;
  for (const auto& [id, worker] : workers_) {
    if (usable(*worker)) list.push_back(worker);
  }
  return list.empty() ? nullptr : list[turn_++ % list.size()];
}

void Fleet::avoid(Worker& worker) {
  worker.avoided_until = boottime_ms() + kAvoided;
  worker.endpoint.reset();
}

awaitable<http::Endpoint> Fleet::reach(std::shared_ptr<Worker> worker) {
  if (worker->endpoint) co_return *worker->endpoint;
  const net::Url url = net::parse_url(worker->url);
  if (url.tls) throw Error{Code::unavailable, worker->url + ": workers are reached by http only"};
  std::string host = url.host;
  if (!url.address) {
    const std::vector<net::Address> found = co_await resolver_.resolve(url.host);
    host = found.front().to_string();
  }
  worker->endpoint = http::Endpoint::tcp(host, url.port);
  co_return *worker->endpoint;
}

awaitable<http::Response> Fleet::get(std::shared_ptr<Worker> worker, std::string target,
                                     Caller caller) {
  const http::Endpoint endpoint = co_await reach(worker);
  http::ClientLimits limits;
  limits.time = kAnswer;
  http::Client client{executor_, endpoint, limits};
  co_return co_await client.request("GET", std::move(target), std::move(caller), {});
}

}  // namespace tb::cluster
