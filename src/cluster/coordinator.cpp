// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/error.h"
#include "base/log.h"

namespace tb::cluster {
namespace {

namespace json = boost::json;

// Of a body, to find in it whom it is for. Clients name the session first.
constexpr std::size_t kPeek = 256 << 10;
constexpr std::size_t kMostAnswer = 256 << 10;  // of a worker that made a session
constexpr int kAttempts = 4;

// While it lives, the request ends when its worker is gone.
struct UnderWay {
  UnderWay(Worker& to, http::Relay::Passage& which) : worker(to), passage(which) {
    worker.under_way.insert(&passage);
    if (worker.gone) passage.abort();  // it went while it was looked for
  }
  ~UnderWay() { worker.under_way.erase(&passage); }
  UnderWay(const UnderWay&) = delete;
  Worker& worker;
  http::Relay::Passage& passage;
};

// Of a worker's 421: who has the thread, and which session that is.
struct Elsewhere {
  std::string worker;
  std::string session;
};

Elsewhere read_elsewhere(const std::string& body) {
  json::error_code error;
  const json::value value = json::parse(body, error);
  const json::object* object = error ? nullptr : value.if_object();
  const auto text_of = [&](const char* name) {
    const json::value* one = object ? object->if_contains(name) : nullptr;
    return one && one->is_string() ? std::string{one->get_string()} : std::string{};
  };
  return {text_of("worker"), text_of("session_id")};
}

http::HttpError later(std::string text) {
  return http::HttpError{503, std::move(text), {{"Retry-After", "1"}}};
}

}  // namespace

Coordinator::Coordinator(asio::any_io_executor executor, Fleet& fleet)
    : fleet_(fleet),
      relay_(executor),
      requests_(registry_.counter("threadbox_coordinator_requests_total",
                                  "Requests that were to be passed on.")),
      unanswered_(registry_.counter("threadbox_coordinator_unanswered_total",
                                    "Times that a worker did not answer.")) {
  const auto add = [&](const char* name, const char* help, auto read) {
    registry_.gauge(name, help).read_by([read] { return static_cast<double>(read()); });
  };
  add("threadbox_coordinator_redis_connected", "1: this coordinator reaches the directory.",
      [this] { return fleet_.directory_connected() ? 1 : 0; });
  add("threadbox_coordinator_workers", "Workers that are known here.",
      [this] { return fleet_.all().size(); });
  add("threadbox_coordinator_workers_healthy", "Those that requests are sent to.", [this] {
    const auto all = fleet_.all();
    return std::count_if(all.begin(), all.end(), [](const auto& one) { return one->healthy; });
  });
}

awaitable<void> Coordinator::handle(http::Exchange& exchange) {
  if (answers_itself(exchange.request())) {
    http::Response response = co_await answer(exchange);
    co_await exchange.respond(std::move(response));
    co_return;
  }
  requests_.add();
  const Asked asked = co_await read(exchange);
  co_await pass_on(exchange, asked);
}

// What is asked of one worker by its name, and what only workers ask each other.
std::shared_ptr<Worker> Coordinator::find_named(const http::Request& request) const {
  if (request.path.starts_with("/cluster/")) {
    throw http::HttpError{404, "only workers ask each other for this"};
  }
  if (!request.path.starts_with("/admin/")) return nullptr;
  const std::string* name = request.find_query("worker");
  if (!name) throw http::HttpError{400, "name one of the workers: ?worker=…"};
  std::shared_ptr<Worker> worker = fleet_.find(*name);
  if (!worker) throw http::HttpError{404, "there is no such worker: GET /cluster/workers"};
  return worker;
}

awaitable<Coordinator::Asked> Coordinator::read(http::Exchange& exchange) {
  const http::Request& request = exchange.request();
  Asked asked;
  asked.addressee = read_target(request);
  asked.creates = creates_session(request);
  asked.caller = caller_of(request);
  const std::optional<std::uint64_t> length = exchange.body_length();
  if (length && *length == 0) asked.whole = true;
  if (asked.whole || !asked.addressee.empty()) co_return asked;
  while (asked.begun.size() < kPeek) {
    const std::size_t before = asked.begun.size();
    const std::uint64_t more = length ? *length - before : 16 << 10;
    if (more == 0) break;
    asked.begun.resize(before + std::min<std::uint64_t>(more, kPeek - before));
    const std::span<char> room{asked.begun.data() + before, asked.begun.size() - before};
    const std::size_t got = co_await exchange.read_some(room);
    asked.begun.resize(before + got);
    if (got == 0) asked.whole = true;
    if (got == 0) break;
    // What is large is not read further than needed.
    if (length && asked.begun.size() == *length) break;
    asked.addressee = read_body(request, asked.begun);
    if (!asked.addressee.session.empty()) co_return asked;
  }
  asked.addressee = read_body(request, asked.begun);
  asked.whole = asked.whole || (length && asked.begun.size() == *length);
  const bool cut = asked.begun.size() >= kPeek && !asked.whole;
  if (cut && asked.addressee.empty()) {
    throw http::HttpError{400,
                          "\"session_id\" must stand in the first 256 KiB of the body: name it "
                          "first, or in the query"};
  }
  co_return asked;
}

awaitable<std::shared_ptr<Worker>> Coordinator::place(const Asked& asked) {
  const Addressee& addressee = asked.addressee;
  Place found;
  if (!addressee.session.empty()) {
    found = co_await fleet_.find_session(addressee.session, asked.caller);
    if (!found.worker && !found.certain) {
      throw later("no worker that answers has this session, and Redis can't be reached");
    }
  } else if (!addressee.thread.empty()) {
    found = co_await fleet_.find_thread(addressee.thread, asked.caller);
    if (!found.worker && !found.certain) {
      throw later("no new sessions while Redis can't be reached");
    }
  }
  if (!found.worker && asked.creates) found.worker = fleet_.choose(addressee.thread);
  // One that does not have it says so in the words of its dialect.
  if (!found.worker) found.worker = fleet_.any();
  if (!found.worker) throw later("No healthy workers available");
  co_return found.worker;
}

awaitable<void> Coordinator::pass_on(http::Exchange& exchange, const Asked& asked) {
  std::shared_ptr<Worker> worker = find_named(exchange.request());
  if (!worker) worker = co_await place(asked);
  for (int i = 0; i < kAttempts; ++i) {
    std::shared_ptr<Worker> next = co_await attempt(exchange, asked, worker);
    if (!next) co_return;
    worker = std::move(next);
  }
  throw later("the thread moves from worker to worker");
}

// Null: it is answered. Else who to ask instead.
awaitable<std::shared_ptr<Worker>> Coordinator::attempt(http::Exchange& exchange,
                                                        const Asked& asked,
                                                        std::shared_ptr<Worker> worker) {
  http::Relay::Passage passage{relay_, exchange};
  const UnderWay under_way{*worker, passage};
  std::string problem;
  bool sent = false;
  const http::Response* head = nullptr;
  try {
    const http::Endpoint endpoint = co_await fleet_.reach(worker);
    co_await passage.send(endpoint, asked.begun);
    sent = true;
    head = co_await passage.receive();
  } catch (const Error& error) {
    problem = error.what();
  }
  if (!head) co_return instead_of(*worker, asked, sent, problem);
  if (head->status == 421) {
    http::Response answer = *head;
    co_return co_await redirect(exchange, passage, asked, std::move(answer));
  }
  if (head->status == 404 && !asked.addressee.session.empty()) {
    const std::shared_ptr<Worker> other = co_await find_again(asked, *worker);
    if (other && !asked.whole) throw later("the session has moved: send it again");
    if (other) co_await passage.read_body(kMostAnswer);
    if (other) co_return other;
  }
  if (asked.creates && head->status < 500) {
    http::Response copy = *head;
    co_await pass_created(exchange, passage, std::move(copy), *worker);
  } else {
    co_await passage.pass();
  }
  co_return nullptr;
}

// For a worker that has not answered: another one, if nothing was begun and any of them would do.
std::shared_ptr<Worker> Coordinator::instead_of(Worker& worker, const Asked& asked, bool sent,
                                                const std::string& problem) {
  unanswered_.add();
  fleet_.avoid(worker);
  if (sent) throw later("worker " + worker.id + " went away: " + problem);
  log(LogLevel::warning, "worker_not_reached", {{"worker", worker.id}, {"error", problem}});
  const bool elsewhere = asked.creates && asked.whole && asked.addressee.thread.empty();
  std::shared_ptr<Worker> other = elsewhere ? fleet_.choose({}) : nullptr;
  if (!other) throw later("worker " + worker.id + " does not answer");
  return other;
}

// A worker's 421 says who has it. One that names nobody is about the client.
awaitable<std::shared_ptr<Worker>> Coordinator::redirect(http::Exchange& exchange,
                                                         http::Relay::Passage& passage,
                                                         const Asked& asked,
                                                         http::Response answer) {
  answer.body = co_await passage.read_body(kMostAnswer);
  const Elsewhere elsewhere = read_elsewhere(answer.body);
  if (elsewhere.worker.empty() && exchange.request().method != "HEAD") {
    co_await exchange.respond(std::move(answer));
    co_return nullptr;
  }
  fleet_.forget_tenant(asked.caller);
  std::shared_ptr<Worker> owner;
  try {
    owner = co_await fleet_.find_or_read(elsewhere.worker);
  } catch (const Error& error) {
    log(LogLevel::debug, "workers_not_read", {{"error", error.what()}});
  }
  if (!owner) throw later("the thread's worker is not known here yet");
  if (!asked.whole) throw later("the session has moved: send it again");
  if (!elsewhere.session.empty()) fleet_.remember(elsewhere.session, owner->id);
  co_return owner;
}

// A session that this worker does not have, and had when we last heard of it, may have moved. Null:
// nobody else has it.
awaitable<std::shared_ptr<Worker>> Coordinator::find_again(const Asked& asked,
                                                           const Worker& worker) {
  fleet_.forget(asked.addressee.session);
  if (!fleet_.directory_connected()) co_return nullptr;
  const std::string asked_before = worker.id;
  const Place place = co_await fleet_.find_session(asked.addressee.session, asked.caller);
  const bool another = place.worker && place.worker->id != asked_before;
  co_return another ? place.worker : nullptr;
}

// The session will be asked for soon, most likely here.
awaitable<void> Coordinator::pass_created(http::Exchange& exchange, http::Relay::Passage& passage,
                                          http::Response head, const Worker& worker) {
  const std::string id = worker.id;
  head.body = co_await passage.read_body(kMostAnswer);
  http::Request json;
  const Addressee made = read_body(json, head.body);
  const bool there = head.status == 200 || head.status == 409;
  if (there && !made.session.empty()) fleet_.remember(made.session, id);
  if (const auto known = fleet_.find(id)) ++known->begun;
  co_await exchange.respond(std::move(head));
}

}  // namespace tb::cluster
