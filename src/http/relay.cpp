// SPDX-License-Identifier: Apache-2.0
#include "http/relay.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/async.h"
#include "base/error.h"
#include "http/chunked.h"
#include "http/client_link.h"
#include "http/response_parser.h"
#include "http/serialize.h"

namespace tb::http {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::size_t kPiece = 256 << 10;
constexpr std::size_t kMostIdle = 64;  // for one server
constexpr auto kLongestIdle = 30s;     // the other side waits for longer
constexpr std::size_t kMostHead = 128 << 10;

// Of one connection only (RFC 9110, 7.6.1), or written anew by who sends.
constexpr std::string_view kNotPassedOn[] = {
    "connection", "keep-alive",        "proxy-connection", "te",     "trailer",
    "upgrade",    "transfer-encoding", "content-length",   "expect", "x-request-id"};
constexpr std::string_view kNotPassedBack[] = {
    "connection", "keep-alive", "proxy-connection", "transfer-encoding", "content-length", "date"};

constexpr std::string_view kForwarded = "X-Forwarded-For";

template <class Names>
bool listed(const Names& names, std::string_view name) {
  return std::any_of(std::begin(names), std::end(names),
                     [&](std::string_view one) { return equal_ignoring_case(one, name); });
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

Relay::Relay(boost::asio::any_io_executor executor, Milliseconds connect)
    : executor_(executor), connect_(connect) {}

Relay::~Relay() = default;

awaitable<bool> Relay::connect(Link& link, const Endpoint& endpoint) {
  co_await link.connect(endpoint);
  co_return true;
}

// Null: there is none.
std::shared_ptr<Link> Relay::find_idle(const Endpoint& endpoint) {
  std::vector<Idle>& idle = idle_[endpoint.text()];
  while (!idle.empty()) {
    Idle one = std::move(idle.back());
    idle.pop_back();
    if (Steady::now() - one.since > kLongestIdle) {
      idle.clear();  // the others are older
    } else if (one.link->usable()) {
      return one.link;
    }
  }
  return nullptr;
}

awaitable<std::shared_ptr<Link>> Relay::open(const Endpoint& endpoint) {
  auto link = std::make_shared<Link>(executor_);
  auto task = connect(*link, endpoint);
  const std::optional<bool> connected = co_await within(connect_, std::move(task));
  if (!connected) throw Error{Code::unavailable, "no connection in time"};
  co_return link;
}

Relay::Passage::Passage(Relay& relay, Exchange& exchange)
    : relay_(relay), exchange_(exchange), over_(std::make_shared<bool>(false)) {}

// One that did not come to its end was given up by the client: the other server is told by a reset,
// because a plain close says no more than that the request is complete.
Relay::Passage::~Passage() {
  exchange_.on_peer_closed(nullptr);
  if (!link_) return;
  const struct linger reset{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(link_->socket().native_handle(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

// What others say of where it comes from, and then where it comes from.
void Relay::Passage::write_forwarded(std::string& out) const {
  const Request& request = exchange_.request();
  out.append(kForwarded).append(": ");
  for (std::size_t i = 0; i < request.headers.size(); ++i) {
    const Headers::Field field = request.headers[i];
    if (equal_ignoring_case(field.name, kForwarded)) out.append(field.value).append(", ");
  }
  out.append(request.peer).append("\r\n");
}

void Relay::Passage::write_head(std::string& out) const {
  const Request& request = exchange_.request();
  out.append(request.method).append(" ").append(request.target).append(" HTTP/1.1\r\n");
  bool has_host = false;
  for (std::size_t i = 0; i < request.headers.size(); ++i) {
    const Headers::Field field = request.headers[i];
    if (listed(kNotPassedOn, field.name) || equal_ignoring_case(field.name, kForwarded)) continue;
    has_host = has_host || equal_ignoring_case(field.name, "host");
    append_field(out, field.name, field.value);
  }
  if (!has_host) append_field(out, "Host", endpoint_.host_header());
  append_field(out, "X-Request-Id", request.id);
  write_forwarded(out);
  if (const auto upgrade = request.headers.find("Upgrade")) {
    append_field(out, "Connection", "Upgrade");
    append_field(out, "Upgrade", *upgrade);
  }
  const std::optional<std::uint64_t> length = exchange_.body_length();
  if (!length) {
    append_field(out, "Transfer-Encoding", "chunked");
  } else if (*length > 0 || request.headers.find("Content-Length")) {
    append_field(out, "Content-Length", std::to_string(*length));
  }
  out += "\r\n";
}

awaitable<void> Relay::Passage::send(const Endpoint& endpoint, std::string_view begun) {
  endpoint_ = endpoint;
  link_ = relay_.find_idle(endpoint);
  kept_ = link_ != nullptr;
  if (!kept_) link_ = co_await relay_.open(endpoint);
  if (*over_) throw Error{Code::unavailable, "it was given up before it was sent"};
  std::string out;
  write_head(out);
  const std::optional<std::uint64_t> length = exchange_.body_length();
  const bool all = length && begun.size() == *length;  // most requests are small
  if (length) {
    out.append(begun);
    begun = {};
  }
  co_await link_->send(out);
  co_await send_body(begun, all);
  watch_client();
}

awaitable<void> Relay::Passage::send_body(std::string_view begun, bool all) {
  const bool chunked = !exchange_.body_length();
  const auto wrap = [](std::string_view bytes) {
    char size[20];
    char* const end = std::to_chars(size, size + 16, bytes.size(), 16).ptr;
    return std::string{size, end}.append("\r\n").append(bytes).append("\r\n");
  };
  std::string chunk = chunked && !begun.empty() ? wrap(begun) : std::string{};
  if (!chunk.empty()) co_await link_->send(chunk);
  std::vector<char> piece(all ? 1 : kPiece / 4);
  while (const std::size_t got = co_await exchange_.read_some(piece)) {
    std::string_view bytes{piece.data(), got};
    if (chunked) bytes = chunk = wrap(bytes);
    co_await link_->send(bytes);
  }
  if (chunked) co_await link_->send("0\r\n\r\n");
  body_sent_ = true;
}

// A client that closes its side is told to the other server in the same way.
void Relay::Passage::watch_client() {
  // The second time its connection is broken; who calls has a copy of this.
  exchange_.on_peer_closed([link = link_, told = std::make_shared<bool>(false), over = over_] {
    const int fd = link->socket().native_handle();
    *over = *over || *told;
    *told = true;
    if (fd >= 0) ::shutdown(fd, *over ? SHUT_RDWR : SHUT_WR);
  });
}

void Relay::Passage::abort() {
  *over_ = true;
  if (link_) ::shutdown(link_->socket().native_handle(), SHUT_RDWR);
}

awaitable<const Response*> Relay::Passage::receive() {
  bool answered = co_await receive_head();
  if (!answered && may_repeat()) {
    co_await send_again();
    answered = co_await receive_head();
  }
  if (!answered) throw Error{Code::unavailable, "the connection ended before an answer"};
  co_return &head_;
}

// False: the connection has ended without a byte of it.
awaitable<bool> Relay::Passage::receive_head() {
  const ResponseParser::Limits limits{.head = Bytes{kMostHead}, .body = {}, .upgrade = true};
  ResponseParser parser{limits, true};  // the body is left where it is
  bool begun = false;
  while (!parser.done()) {
    begun = begun || !link_->buffer().empty();
    link_->buffer().consume(parser.parse(link_->buffer().view()));
    if (parser.done()) break;
    const std::size_t got = co_await link_->receive(2 * kMostHead);
    if (got == 0 && !begun) co_return false;
    if (got == 0) throw Error{Code::unavailable, "the connection ended within an answer"};
  }
  head_ = std::move(parser.response());
  keep_ = parser.keep_alive();
  frame();
  co_return true;
}

// An upgrade may start something, though it is a GET.
bool Relay::Passage::may_repeat() const {
  const Request& request = exchange_.request();
  const bool asks = request.method == "GET" || request.method == "HEAD";
  const std::optional<std::uint64_t> length = exchange_.body_length();
  return kept_ && !*over_ && asks && length && *length == 0 && !request.headers.find("Upgrade");
}

// The other kept ones have ended too, most likely.
awaitable<void> Relay::Passage::send_again() {
  exchange_.on_peer_closed(nullptr);
  relay_.idle_.erase(endpoint_.text());
  kept_ = false;
  link_ = co_await relay_.open(endpoint_);
  if (*over_) throw Error{Code::unavailable, "nobody waits for it any more"};
  std::string out;
  write_head(out);
  co_await link_->send(out);
  watch_client();
}

// How the end of the body is found; then only what goes to the client is left in the head.
void Relay::Passage::frame() {
  switches_ = head_.status == 101;
  const std::string* coding = head_.find("transfer-encoding");
  const std::string* length = head_.find("content-length");
  framing_ = Framing::until_close;
  if (coding) {
    if (!equal_ignoring_case(*coding, "chunked")) {
      throw Error{Code::unavailable, "an answer in an unknown transfer coding"};
    }
    framing_ = Framing::chunked;
    chunks_ = std::make_unique<ChunkDecoder>();
  } else if (length) {
    const auto [end, error] =
        std::from_chars(length->data(), length->data() + length->size(), left_);
    if (error != std::errc{}) throw Error{Code::unavailable, "an answer of no known length"};
    framing_ = Framing::length;
  }
  if (!status_has_body(head_.status)) framing_ = Framing::none;
  if (framing_ == Framing::until_close) keep_ = false;
  std::erase_if(head_.headers,
                [](const Header& header) { return listed(kNotPassedBack, header.name); });
}

// How many of the bytes in the buffer are the next ones of a body that is not chunked; 0 at its
// end.
awaitable<std::size_t> Relay::Passage::next_plain() {
  const bool counted = framing_ == Framing::length;
  if (framing_ == Framing::none || (counted && left_ == 0)) co_return 0;
  if (link_->buffer().empty()) {
    const std::size_t got = co_await link_->receive(kPiece);
    if (got == 0 && counted) {
      throw Error{Code::unavailable, "the connection ended within an answer"};
    }
  }
  std::size_t size = link_->buffer().view().size();
  if (counted) size = std::min<std::uint64_t>(size, left_);
  left_ -= counted ? size : 0;
  co_return size;
}

// The next bytes of any body; 0 at its end.
awaitable<std::size_t> Relay::Passage::next_piece(std::span<char> out) {
  ReadBuffer& buffer = link_->buffer();
  if (framing_ != Framing::chunked) {
    if (piece_left_ == 0) piece_left_ = co_await next_plain();
    const std::size_t size = std::min(out.size(), piece_left_);
    std::copy_n(buffer.view().data(), size, out.data());
    buffer.consume(size);
    piece_left_ -= size;
    co_return size;
  }
  for (;;) {
    const ChunkDecoder::Progress progress = chunks_->decode(buffer.view(), out);
    buffer.consume(progress.consumed);
    if (progress.produced > 0 || chunks_->done()) co_return progress.produced;
    const std::size_t got = co_await link_->receive(kPiece);
    if (got == 0) throw Error{Code::unavailable, "the connection ended within an answer"};
  }
}

awaitable<std::string> Relay::Passage::read_body(std::size_t limit) {
  std::string body;
  std::vector<char> piece(16 << 10);
  if (exchange_.request().method == "HEAD") framing_ = Framing::none;
  while (const std::size_t got = co_await next_piece(piece)) {
    if (body.size() < limit) body.append(piece.data(), std::min(got, limit - body.size()));
  }
  done();
  co_return body;
}

void Relay::Passage::done() {
  exchange_.on_peer_closed(nullptr);
  auto& idle = relay_.idle_[endpoint_.text()];
  link_->buffer().shrink();
  if (keep_ && idle.size() < kMostIdle && link_->usable()) {
    idle.push_back({link_, Steady::now()});
  }
  link_.reset();
}

awaitable<void> Relay::Passage::pass() {
  if (switches_) {
    co_await tunnel();
    co_return;
  }
  std::optional<std::uint64_t> length;
  if (framing_ == Framing::length) length = left_;
  co_await exchange_.begin(std::move(head_), length);
  co_await pass_body();
  co_await exchange_.end();
  done();
}

awaitable<void> Relay::Passage::pass_body() {
  if (exchange_.request().method == "HEAD") {
    // Announced, counted, and never sent.
    static const std::string nothing(64 << 10, '\0');
    while (framing_ == Framing::length && left_ > 0) {
      const auto size = std::min<std::uint64_t>(left_, nothing.size());
      co_await exchange_.write(std::string_view{nothing}.substr(0, size));
      left_ -= size;
    }
    framing_ = Framing::none;
    co_return;
  }
  if (framing_ != Framing::chunked) {
    while (const std::size_t size = co_await next_plain()) {
      co_await exchange_.write(link_->buffer().view().substr(0, size));
      link_->buffer().consume(size);
    }
    co_return;
  }
  // Few answers need more than what has come with their head.
  std::vector<char> piece(std::clamp<std::size_t>(link_->buffer().view().size(), 4 << 10, kPiece));
  while (const std::size_t got = co_await next_piece(piece)) {
    co_await exchange_.write({piece.data(), got});
    if (got == piece.size() && piece.size() < kPiece) piece.resize(kPiece);
  }
}

// Both directions at once, until one side has no more to say; then the other is told.
awaitable<void> Relay::Passage::tunnel() {
  exchange_.on_peer_closed(nullptr);
  co_await exchange_.switch_protocols(std::move(head_));
  const auto executor = co_await boost::asio::this_coro::executor;
  TaskGroup tasks{executor, [](const std::string&, std::exception_ptr) {}};
  tasks.spawn("to the server", [this]() -> awaitable<void> {
    std::vector<char> piece(16 << 10);
    while (const std::size_t got = co_await exchange_.receive_raw(piece)) {
      co_await link_->send({piece.data(), got});
    }
    ::shutdown(link_->socket().native_handle(), SHUT_WR);
  });
  std::exception_ptr failure;
  try {
    for (;;) {
      const std::string_view view = link_->buffer().view();
      if (!view.empty()) {
        co_await exchange_.send_raw(view);
        link_->buffer().consume(view.size());
      }
      const std::size_t got = co_await link_->receive(kPiece);
      if (got == 0) break;
    }
  } catch (...) {
    failure = std::current_exception();
  }
  co_await tasks.close();
  link_.reset();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tb::http
