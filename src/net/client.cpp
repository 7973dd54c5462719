// SPDX-License-Identifier: Apache-2.0
#include "net/client.h"

#include <algorithm>

#include "http/serialize.h"

namespace tb::net {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPiece = 64 << 10;
constexpr Bytes kMaxHead = 64_KiB;
constexpr Milliseconds kQuiet = 60s;

std::string key_of(const Url& url) { return (url.tls ? "https " : "http ") + url.authority(); }

// Of a request in pieces, so that the wait for each one can have an end.
awaitable<bool> write_piece(Connection& wire, std::string_view piece) {
  co_await wire.write(piece);
  co_return true;
}

awaitable<void> write_all(Connection& wire, std::string_view bytes, Milliseconds limit) {
  for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
    auto task = write_piece(wire, bytes.substr(at, kPiece));
    const std::optional<bool> taken = co_await within(limit, std::move(task));
    if (!taken) throw Error{Code::unavailable, "the request was not taken in time"};
  }
}

Error cut() { return Error{Code::unavailable, "the connection ended within the answer"}; }

}  // namespace

Answer::Answer(Client& client, std::string key, std::unique_ptr<Connection> connection,
               http::ResponseParser::Limits limits, bool to_head)
    : client_(client),
      key_(std::move(key)),
      connection_(std::move(connection)),
      parser_(limits, to_head) {}

// False: the other end has closed the connection.
awaitable<bool> Answer::fill() {
  std::string piece(kPiece, '\0');
  const std::span<char> room{piece};
  const std::size_t got = co_await connection_->read_some(room);
  if (got > 0) heard_ = true;
  received_.append(piece, 0, got);
  if (got > 0) received_.erase(0, parser_.parse(received_));
  co_return got > 0;
}

awaitable<bool> Answer::read_head() {
  while (!parser_.has_head()) {
    const bool more = co_await fill();
    if (!more) throw Error{Code::unavailable, "the connection ended before an answer"};
  }
  head_ = parser_.response();
  head_.body.clear();
  co_return true;
}

awaitable<std::string> Answer::read(Milliseconds quiet) {
  for (;;) {
    std::string bytes = std::exchange(parser_.response().body, {});
    if (!bytes.empty()) co_return bytes;
    if (parser_.done() || !connection_) break;
    auto task = fill();
    const std::optional<bool> more = co_await within(quiet, std::move(task));
    if (!more) throw Error{Code::unavailable, "nothing was heard for too long"};
    if (*more) continue;
    bool whole = true;
    try {
      parser_.finish();
    } catch (const Error&) {
      whole = false;
    }
    if (!whole) throw cut();
  }
  finish();
  co_return std::string{};
}

awaitable<std::string> Answer::read_all(Bytes most, Milliseconds whole) {
  std::string all;
  const auto end = Clock::now() + whole;
  for (;;) {
    const auto left = std::chrono::duration_cast<Milliseconds>(end - Clock::now());
    if (left <= 0ms) throw Error{Code::unavailable, "the answer did not end in time"};
    const std::string piece = co_await read(std::min(left, kQuiet));
    if (piece.empty()) co_return all;
    if (all.size() + piece.size() > most.count) {
      throw Error{Code::exhausted, "the answer is too large"};
    }
    all += piece;
  }
}

void Answer::finish() {
  if (!connection_) return;
  auto connection = std::move(connection_);
  if (parser_.keep_alive() && received_.empty()) client_.keep(key_, std::move(connection));
}

Client::Client(asio::any_io_executor executor, Settings settings)
    : executor_(executor),
      settings_(std::move(settings)),
      resolver_(executor, {.servers = settings_.dns_servers, .limit = settings_.connect}),
      tls_(settings_.authorities, settings_.authorities_setting) {}

std::unique_ptr<Connection> Client::find_waiting(const std::string& key) {
  std::vector<Waiting>& waiting = waiting_[key];
  while (!waiting.empty()) {
    Waiting last = std::move(waiting.back());
    waiting.pop_back();
    const bool fresh = Clock::now() - last.since < settings_.idle;
    if (fresh && last.connection->usable()) return std::move(last.connection);
  }
  waiting_.erase(key);
  return nullptr;
}

void Client::keep(const std::string& key, std::unique_ptr<Connection> connection) {
  const auto now = Clock::now();
  for (auto& [other, waiting] : waiting_) {
    std::erase_if(waiting, [&](const Waiting& one) { return now - one.since > settings_.idle; });
  }
  std::erase_if(waiting_, [](const auto& entry) { return entry.second.empty(); });
  std::vector<Waiting>& waiting = waiting_[key];
  if (waiting.size() < settings_.kept) waiting.push_back({std::move(connection), now});
}

awaitable<bool> Client::open(Connection& connection, const Url& url) {
  std::vector<Address> addresses;
  if (url.address) {
    addresses.push_back(*url.address);
  } else {
    addresses = co_await resolver_.resolve(url.host);
  }
  co_await connection.open(std::move(addresses), url, tls_);
  co_return true;
}

awaitable<std::unique_ptr<Connection>> Client::connect(const Url& url) {
  auto connection = std::make_unique<Connection>(executor_);
  std::string why;
  try {
    auto task = open(*connection, url);
    const std::optional<bool> opened = co_await within(settings_.connect, std::move(task));
    if (opened) co_return connection;
    why = "no connection to " + url.authority() + " in time";
  } catch (const Error& error) {
    why = error.what();
  }
  throw NotSent{why};
}

awaitable<std::unique_ptr<Answer>> Client::exchange(Ask& ask,
                                                    std::unique_ptr<Connection> connection,
                                                    bool& heard) {
  const std::uint64_t length = ask.next ? ask.length : ask.body.size();
  std::string message = http::serialize_request_head(ask.method, ask.url.target,
                                                     ask.url.authority(), ask.headers, length);
  if (!ask.next) message += ask.body;
  Connection& wire = *connection;
  const http::ResponseParser::Limits limits{.head = kMaxHead, .body = Bytes{UINT64_MAX}};
  auto answer = std::make_unique<Answer>(*this, key_of(ask.url), std::move(connection), limits,
                                         ask.method == "HEAD");
  std::exception_ptr unsent;
  try {
    co_await write_all(wire, message, ask.write);
    while (ask.next) {
      const std::string piece = co_await ask.next();
      if (piece.empty()) break;
      co_await write_all(wire, piece, ask.write);
    }
  } catch (const Error&) {
    // It may have answered before it had read all: what it says counts.
    unsent = std::current_exception();
  }
  std::exception_ptr failure;
  try {
    auto task = answer->read_head();
    const std::optional<bool> there = co_await within(ask.answer, std::move(task));
    if (there) co_return answer;
    failure = std::make_exception_ptr(Error{Code::unavailable, "no answer in time"});
    answer->heard_ = true;  // or at least somebody is there
  } catch (const Error&) {
    failure = std::current_exception();
  }
  heard = answer->heard_;
  std::rethrow_exception(unsent ? unsent : failure);
}

awaitable<std::unique_ptr<Answer>> Client::send(Ask ask) {
  std::unique_ptr<Connection> connection = find_waiting(key_of(ask.url));
  if (connection) {
    bool heard = false;
    std::exception_ptr failure;
    try {
      co_return co_await exchange(ask, std::move(connection), heard);
    } catch (const Error&) {
      failure = std::current_exception();
    }
    // It was closed while the request was on its way: another connection may fare better.
    if (heard || !ask.repeatable || ask.next) std::rethrow_exception(failure);
  }
  connection = co_await connect(ask.url);
  bool heard = false;
  co_return co_await exchange(ask, std::move(connection), heard);
}

}  // namespace tb::net
