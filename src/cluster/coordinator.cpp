// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator.h"

#include "base/error.h"
#include "base/log.h"

namespace tb::cluster {
namespace {

// Of a body, to find in it whom it is for. Clients name the session first.
constexpr std::size_t kPeek = 256 << 10;
constexpr std::size_t kMostAnswer = 256 << 10;  // of a worker that made a session
constexpr int kAttempts = 4;

// While it lives, the request ends when its worker is gone.
struct UnderWay {
  UnderWay(Worker& to, http::Relay::Passage& which) : worker(to), passage(which) {
    worker.under_way.insert(&passage);
  }
  ~UnderWay() { worker.under_way.erase(&passage); }
  UnderWay(const UnderWay&) = delete;
  Worker& worker;
  http::Relay::Passage& passage;
};

http::HttpError later(std::string text) {
  return http::HttpError{503, std::move(text), {{"Retry-After", "1"}}};
}

}  // namespace

awaitable<void> Coordinator::handle(http::Exchange& exchange) {
  if (answers_itself(exchange.request())) {
    http::Response response = co_await answer(exchange);
    co_await exchange.respond(std::move(response));
    co_return;
  }
  const Asked asked = co_await read(exchange);
  co_await pass_on(exchange, asked);
}

awaitable<Coordinator::Asked> Coordinator::read(http::Exchange& exchange) {
  const http::Request& request = exchange.request();
  Asked asked;
  asked.addressee = read_target(request);
  asked.creates = creates_session(request);
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
    found = co_await fleet_.find_session(addressee.session);
    if (!found.worker && !found.certain) {
      throw later("no worker that answers has this session, and Redis can't be reached");
    }
  } else if (!addressee.thread.empty()) {
    found = co_await fleet_.find_thread(addressee.thread);
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
  std::shared_ptr<Worker> worker = co_await place(asked);
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
  try {
    const http::Endpoint endpoint = co_await fleet_.reach(worker);
    co_await passage.send(endpoint, asked.begun);
  } catch (const Error& error) {
    problem = error.what();
  }
  if (!problem.empty()) {
    fleet_.avoid(*worker);
    log(LogLevel::warning, "worker_not_reached", {{"worker", worker->id}, {"error", problem}});
    const bool elsewhere = asked.creates && asked.whole && asked.addressee.thread.empty();
    std::shared_ptr<Worker> other = elsewhere ? fleet_.choose({}) : nullptr;
    if (!other) throw later("worker " + worker->id + " does not answer");
    co_return other;
  }
  const http::Response* head = nullptr;
  try {
    head = co_await passage.receive();
  } catch (const Error& error) {
    problem = error.what();
  }
  if (!head) {
    fleet_.avoid(*worker);
    throw later("worker " + worker->id + " went away: " + problem);
  }
  if (head->status == 421 && asked.whole) {
    const std::string body = co_await passage.read_body(kMostAnswer);
    const std::string marker = "\"worker\":\"";
    const std::size_t at = body.find(marker);
    const std::size_t begin = at + marker.size();
    std::shared_ptr<Worker> owner;
    if (at != body.npos) owner = fleet_.find(body.substr(begin, body.find('"', begin) - begin));
    if (!owner) throw later("the thread's worker is not known here yet");
    co_return owner;
  }
  if (head->status == 404 && !asked.addressee.session.empty()) {
    fleet_.forget(asked.addressee.session);
  }
  if (asked.creates && head->status < 500) {
    http::Response copy = *head;
    co_await pass_created(exchange, passage, std::move(copy), *worker);
  } else {
    co_await passage.pass();
  }
  co_return nullptr;
}

// The session will be asked for soon, most likely here.
awaitable<void> Coordinator::pass_created(http::Exchange& exchange, http::Relay::Passage& passage,
                                          http::Response head, const Worker& worker) {
  const std::string id = worker.id;
  head.body = co_await passage.read_body(kMostAnswer);
  http::Request json;
  const Addressee made = read_body(json, head.body);
  if (!made.session.empty()) fleet_.remember(made.session, id);
  if (const auto known = fleet_.find(id)) ++known->begun;
  co_await exchange.respond(std::move(head));
}

}  // namespace tb::cluster
