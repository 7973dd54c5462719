// SPDX-License-Identifier: Apache-2.0
#include "hooks/sender.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include "base/async.h"
#include "base/error.h"
#include "base/log.h"
#include "hooks/backoff.h"
#include "http/response_parser.h"
#include "http/serialize.h"
#include "net/tls.h"

namespace tb::hooks {
namespace {

using tcp = asio::ip::tcp;
using net::Address;
using net::Url;

constexpr Bytes kMaxHead = 16_KiB;
constexpr std::size_t kPiece = 4 << 10;
constexpr std::size_t kMaxTried = 4;  // addresses of a host

// It leads to where nothing is sent.
struct Forbidden {
  std::string why;
};

Attempt refused(std::string why) { return {.error = std::move(why), .refused = true}; }
Attempt failed(std::string why) { return {.error = std::move(why)}; }

// The same over both kinds of stream.
template <class Stream>
awaitable<http::Response> exchange(Stream& stream, const std::string& message) {
  const asio::const_buffer all{message.data(), message.size()};
  // A receiver may answer before it has read all: what it says counts.
  co_await asio::async_write(stream, all, asio::as_tuple(asio::use_awaitable));
  const http::ResponseParser::Limits limits{.head = kMaxHead};
  http::ResponseParser parser{limits, true};  // as to HEAD: no body is read
  std::string received;
  std::size_t total = 0;  // with answers that are none yet (1xx): there may be any number of them
  while (!parser.done()) {
    if (total > kMaxHead.count + kPiece) {
      throw Error{Code::exhausted, "the head of the answer is too large"};
    }
    const std::size_t before = received.size();
    received.resize(before + kPiece);
    const asio::mutable_buffer room{received.data() + before, kPiece};
    const auto [error, got] =
        co_await stream.async_read_some(room, asio::as_tuple(asio::use_awaitable));
    if (error == asio::error::operation_aborted) throw boost::system::system_error{error};
    if (got == 0) {
      throw Error{Code::unavailable, "the connection ended before an answer: " + error.message()};
    }
    received.resize(before + got);
    total += got;
    received.erase(0, parser.parse(received));
  }
  co_return std::move(parser.response());
}

}  // namespace

class Sender::Impl {
 public:
  Impl(asio::any_io_executor executor, Settings settings)
      : executor_(executor),
        settings_(std::move(settings)),
        resolver_(executor, {.servers = settings_.dns_servers, .limit = settings_.connect}),
        tls_(settings_.authorities) {}

  awaitable<Attempt> post(std::string url, std::vector<http::Header> headers, std::string body) {
    auto task = follow(std::move(url), std::move(headers), std::move(body));
    const std::optional<Attempt> done = co_await within(settings_.whole, std::move(task));
    co_return done ? *done : failed("no answer in time");
  }

 private:
  awaitable<Attempt> follow(std::string text, std::vector<http::Header> headers, std::string body) {
    try {
      Url url = net::parse_url(text);
      for (unsigned hop = 0; hop <= settings_.redirects; ++hop) {
        const std::string message =
            http::serialize_request("POST", url.target, url.authority(), headers, body);
        const http::Response answer = co_await request(url, message);
        if (answer.status != 307 && answer.status != 308) co_return judge(answer);
        const std::string* location = answer.find("location");
        if (!location) co_return failed("a redirect that says not where to");
        const Url next = net::parse_redirect(url, *location);
        if (next.tls != url.tls) co_return refused("a redirect to another scheme");
        url = next;
      }
      co_return failed("too many redirects");
    } catch (const Forbidden& forbidden) {
      co_return refused(forbidden.why);
    } catch (const Error& error) {
      if (error.code() == Code::invalid) co_return refused(error.what());
      co_return failed(error.what());
    } catch (const boost::system::system_error& error) {
      if (error.code() == asio::error::operation_aborted) throw;
      co_return failed(error.what());
    }
  }

  static Attempt judge(const http::Response& answer) {
    Attempt attempt{.status = answer.status};
    if (!attempt.delivered()) attempt.error = "answered " + std::to_string(answer.status);
    const std::string* wait = answer.find("retry-after");
    if (wait && (answer.status == 429 || answer.status == 503)) {
      attempt.retry_after = parse_retry_after(*wait, std::chrono::system_clock::now());
    }
    return attempt;
  }

  // All of them: a name that leads to the inside with one of its addresses leads there.
  awaitable<std::vector<Address>> addresses_of(const Url& url) {
    std::vector<Address> found;
    if (url.address) {
      found.push_back(*url.address);
    } else {
      found = co_await resolver_.resolve(url.host);
    }
    for (const Address& address : found) {
      const std::string kind = settings_.rules.refusal(address);
      if (kind.empty()) continue;
      // Whoever made the webhook need not know what a name means inside of this network.
      log(LogLevel::debug, "webhook_address_refused",
          {{"host", url.host}, {"address", address.to_string()}, {"kind", kind}});
      throw Forbidden{"nothing is sent to " + url.host + ": its address is not allowed here"};
    }
    if (found.size() > kMaxTried) found.resize(kMaxTried);
    co_return found;
  }

  awaitable<http::Response> request(const Url& url, const std::string& message) {
    const std::vector<Address> addresses = co_await addresses_of(url);
    tcp::socket socket{executor_};
    auto connecting = connect(socket, addresses, url.port);
    const std::optional<std::string> problem =
        co_await within(settings_.connect, std::move(connecting));
    if (!problem) throw Error{Code::unavailable, "no connection in time"};
    if (!problem->empty()) throw Error{Code::unavailable, "no connection: " + *problem};
    if (!url.tls) co_return co_await exchange(socket, message);
    const std::unique_ptr<net::TlsStream> stream = tls_.wrap(socket, url);
    co_await tls_.handshake(*stream);
    co_return co_await exchange(*stream, message);
  }

  // What went wrong with the last of them; empty: it is connected.
  awaitable<std::string> connect(tcp::socket& socket, const std::vector<Address>& addresses,
                                 std::uint16_t port) {
    std::string problem = "no address";
    for (const Address& address : addresses) {
      const tcp::endpoint endpoint{address, port};
      boost::system::error_code ignored;
      socket.close(ignored);
      const auto [error] =
          co_await socket.async_connect(endpoint, asio::as_tuple(asio::use_awaitable));
      if (error == asio::error::operation_aborted) throw boost::system::system_error{error};
      problem = error ? error.message() : "";
      if (!error) break;
    }
    co_return problem;
  }

  asio::any_io_executor executor_;
  Settings settings_;
  net::Resolver resolver_;
  net::Tls tls_;
};

Sender::Sender(asio::any_io_executor executor, Settings settings)
    : impl_(std::make_unique<Impl>(executor, std::move(settings))) {}

Sender::~Sender() = default;

awaitable<Attempt> Sender::post(std::string url, std::vector<http::Header> headers,
                                std::string body) {
  return impl_->post(std::move(url), std::move(headers), std::move(body));
}

}  // namespace tb::hooks
