// SPDX-License-Identifier: Apache-2.0
#include "e2b/api.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace tb::e2b {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Bytes kMaxAnswer = 8_MiB;
constexpr unsigned kMaxAttempts = 4;
constexpr std::chrono::seconds kMaxPause{20};  // that somebody who waits for an answer is made wait
constexpr auto kRefusedFor = 30s;              // then the key is tried again
constexpr int kPages = 100;
constexpr const char* kTag = "threadbox";
constexpr const char* kSession = "threadbox_session";
// Its domains have one host for all sandboxes.
constexpr const char* kShared[] = {"e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev"};

std::string message_of(const std::string& body) {
  const auto answer = parse_object(body);
  std::string text = answer ? text_of(*answer, "message") : std::string{};
  if (text.size() > 300) text.resize(300);
  return text.empty() ? text : ": " + text;
}

}  // namespace

std::optional<Milliseconds> pause_before(unsigned attempt, int status, bool repeatable,
                                         const std::string* retry_after) {
  if (attempt >= kMaxAttempts) return std::nullopt;
  const bool untouched = status == 0 || status == 429;  // it was not even looked at
  const bool passing = status == 502 || status == 503 || status == 504;
  if (!untouched && !(passing && repeatable)) return std::nullopt;
  const Milliseconds usual{100 << (2 * (attempt - 1))};
  if (!retry_after) return usual;
  unsigned seconds = 0;
  const char* const end = retry_after->data() + retry_after->size();
  const auto [at, error] = std::from_chars(retry_after->data(), end, seconds);
  if (error != std::errc{} || at != end) return usual;
  if (seconds > kMaxPause.count()) return std::nullopt;
  return std::max<Milliseconds>(usual, std::chrono::seconds{seconds});
}

Api::Api(asio::any_io_executor executor, net::Client& client, ApiSettings settings)
    : executor_(executor), client_(client), settings_(std::move(settings)) {
  base_ = settings_.url.empty() ? "https://api." + settings_.domain : settings_.url;
  while (base_.ends_with('/')) base_.pop_back();
}

std::string Api::problem() const {
  if (refused_.empty() || Clock::now() - refused_at_ > kRefusedFor) return {};
  return refused_;
}

net::Url Api::url_of(const Machine& machine) const {
  if (!settings_.sandbox_url.empty()) return net::parse_url(settings_.sandbox_url);
  const std::string& domain = machine.domain.empty() ? settings_.domain : machine.domain;
  if (std::find(std::begin(kShared), std::end(kShared), domain) != std::end(kShared)) {
    return net::parse_url("https://sandbox." + domain);
  }
  return net::parse_url("https://49983-" + machine.id + "." + domain);
}

// `pause`: how long to wait for the next attempt; empty: the reply counts.
awaitable<Api::Reply> Api::attempt(const net::Ask& ask, std::optional<Milliseconds>& pause,
                                   unsigned number) {
  Reply reply;
  std::exception_ptr failure;
  try {
    net::Ask again = ask;
    const auto answer = co_await client_.send(std::move(again));
    reply.status = answer->status();
    reply.body = co_await answer->read_all(kMaxAnswer);
    if (const std::string* next = answer->find("x-next-token")) reply.next = *next;
    pause = pause_before(number, reply.status, ask.repeatable, answer->find("retry-after"));
    co_return reply;
  } catch (const net::NotSent&) {
    failure = std::current_exception();
    pause = pause_before(number, 0, ask.repeatable, nullptr);
  } catch (const Error&) {
    failure = std::current_exception();
    pause = pause_before(number, 503, ask.repeatable, nullptr);
  }
  if (!pause) {
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      throw Error{Code::unavailable,
                  "E2B can't be reached at " + ask.url.authority() + ": " + error.what()};
    }
  }
  co_return reply;
}

awaitable<Api::Reply> Api::call(std::string method, std::string path, json::object body,
                                bool repeatable) {
  net::Ask ask;
  ask.method = std::move(method);
  ask.url = net::parse_url(base_ + path);
  ask.headers = {{"X-API-KEY", settings_.key},
                 {"User-Agent", "threadbox/" TB_VERSION},
                 {"Accept", "application/json"}};
  if (ask.method != "GET" && ask.method != "DELETE") {
    ask.headers.push_back({"Content-Type", "application/json"});
    ask.body = json::serialize(body);
  }
  ask.answer = 60s;  // a sandbox may take long to be made
  ask.repeatable = repeatable;
  for (unsigned number = 1;; ++number) {
    std::optional<Milliseconds> pause;
    Reply reply = co_await attempt(ask, pause, number);
    if (!pause) {
      if (reply.status != 401) refused_.clear();
      co_return reply;
    }
    asio::steady_timer timer{executor_, *pause};
    co_await timer.async_wait(asio::use_awaitable);
  }
}

Error Api::refusal(const Reply& reply, const std::string& doing) {
  const std::string told = " (" + std::to_string(reply.status) + message_of(reply.body) + ")";
  if (reply.status == 401) {
    refused_ = "E2B refused the key" + told + ": set E2B_API_KEY to one that is valid there";
    refused_at_ = Clock::now();
    return Error{Code::unavailable, refused_};
  }
  if (reply.status == 403) return Error{Code::invalid, "E2B does not allow to " + doing + told};
  if (reply.status == 429) {
    return Error{Code::exhausted, "E2B allows no more for now" + told + ": end sessions or wait"};
  }
  if (reply.status / 100 == 4) return Error{Code::invalid, "E2B can't " + doing + told};
  return Error{Code::unavailable, "E2B failed to " + doing + told + ": try again later"};
}

Machine Api::to_machine(const Reply& reply) {
  const auto answer = parse_object(reply.body);
  Machine machine;
  if (answer) {
    machine.id = text_of(*answer, "sandboxID");
    machine.token = text_of(*answer, "envdAccessToken");
    machine.domain = text_of(*answer, "domain");
  }
  // It becomes part of paths and of a host's name.
  const bool good = !machine.id.empty() && machine.id.size() <= 128 &&
                    std::all_of(machine.id.begin(), machine.id.end(), [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                             (c >= 'A' && c <= 'Z') || c == '-';
                    });
  if (!good) throw Error{Code::unavailable, "what came from E2B tells of no sandbox"};
  return machine;
}

awaitable<Machine> Api::create(std::string from_template, std::string tag, std::string session,
                               std::chrono::seconds timeout, bool internet) {
  json::object body{{"templateID", from_template},
                    {"metadata", json::object{{kTag, tag}, {kSession, session}}},
                    {"timeout", timeout.count()},
                    {"allow_internet_access", internet}};
  const Reply reply = co_await call("POST", "/v2/sandboxes", std::move(body), false);
  if (reply.status == 200 || reply.status == 201) co_return to_machine(reply);
  const std::string hint =
      reply.status == 404 || reply.status == 400
          ? " (name another one as the environment's `template`, or as E2B_TEMPLATE)"
          : "";
  throw refusal(reply, "make a sandbox of the template \"" + from_template + "\"" + hint);
}

awaitable<std::optional<Machine>> Api::connect(std::string id, std::chrono::seconds timeout) {
  json::object body{{"timeout", timeout.count()}};
  const Reply reply =
      co_await call("POST", "/v2/sandboxes/" + id + "/connect", std::move(body), true);
  if (reply.status == 404) co_return std::nullopt;
  if (reply.status != 200 && reply.status != 201) throw refusal(reply, "connect to a sandbox");
  co_return to_machine(reply);
}

awaitable<bool> Api::keep_alive(std::string id, std::chrono::seconds timeout) {
  json::object body{{"timeout", timeout.count()}};
  const Reply reply = co_await call("POST", "/sandboxes/" + id + "/timeout", std::move(body), true);
  if (reply.status == 404) co_return false;
  if (reply.status / 100 != 2) throw refusal(reply, "keep a sandbox alive");
  co_return true;
}

awaitable<void> Api::kill(std::string id) {
  json::object nothing;
  const Reply reply = co_await call("DELETE", "/sandboxes/" + id, std::move(nothing), true);
  if (reply.status / 100 != 2 && reply.status != 404) throw refusal(reply, "end a sandbox");
}

awaitable<std::vector<Listed>> Api::list(std::string tag) {
  // The value is a query itself, whose parts are escaped once more.
  const std::string filter = percent_encode(std::string{kTag} + "=" + percent_encode(tag));
  std::vector<Listed> found;
  std::string next;
  for (int page = 0; page < kPages; ++page) {
    const std::string more = next.empty() ? "" : "&nextToken=" + percent_encode(next);
    json::object nothing;
    const Reply reply = co_await call("GET", "/v2/sandboxes?limit=100&metadata=" + filter + more,
                                      std::move(nothing), true);
    if (reply.status != 200) throw refusal(reply, "list sandboxes");
    boost::system::error_code error;
    const json::value rows = json::parse(reply.body, error);
    if (error || !rows.is_array()) {
      throw Error{Code::unavailable, "what came from E2B is no list of sandboxes"};
    }
    for (const json::value& row : rows.as_array()) {
      const json::object* one = row.if_object();
      const json::object* metadata = one ? object_of(*one, "metadata") : nullptr;
      // Whoever ignores the filter must not make us end what is not ours.
      if (!metadata || text_of(*metadata, kTag) != tag) continue;
      found.push_back({text_of(*one, "sandboxID"), text_of(*metadata, kSession)});
    }
    next = reply.next;
    if (next.empty()) break;
  }
  co_return found;
}

}  // namespace tb::e2b
