// SPDX-License-Identifier: Apache-2.0
#include "http/client.h"

#include <algorithm>
#include <vector>

#include "base/async.h"
#include "base/error.h"
#include "http/client_link.h"
#include "http/serialize.h"

namespace tb::http {
namespace {

bool may_repeat(std::string_view method) { return method != "POST" && method != "PATCH"; }

}  // namespace

Endpoint Endpoint::tcp(std::string host, std::uint16_t port) {
  return {.host = std::move(host), .port = port, .path = {}};
}

Endpoint Endpoint::unix_socket(std::string path) {
  return {.host = "localhost", .port = 0, .path = std::move(path)};
}

std::string Endpoint::host_header() const { return path.empty() ? text() : "localhost"; }

std::string Endpoint::text() const {
  if (!path.empty()) return "unix:" + path;
  const bool v6 = host.find(':') != host.npos;
  return (v6 ? '[' + host + ']' : host) + ':' + std::to_string(port);
}

class Client::Impl {
 public:
  Impl(asio::any_io_executor executor, Endpoint endpoint, ClientLimits limits)
      : executor_(executor), endpoint_(std::move(endpoint)), limits_(limits) {}

  awaitable<Response> request(std::string method, std::string target, std::vector<Header> headers,
                              std::string body) {
    const std::string message =
        serialize_request(method, target, endpoint_.host_header(), headers, body);
    auto task = run(method, message);
    std::optional<Response> response;
    try {
      response = co_await within(limits_.time, std::move(task));
    } catch (const Error& error) {
      throw Error{error.code(), describe(method, target) + error.what()};
    }
    if (!response) {
      throw Error{Code::unavailable, describe(method, target) + "no response in time"};
    }
    co_return std::move(*response);
  }

  awaitable<Response> get_beginning(std::string target, Bytes most) {
    const std::string message = serialize_request("GET", target, endpoint_.host_header(), {}, {});
    auto task = run_beginning(message, most);
    std::optional<Response> response;
    try {
      response = co_await within(limits_.time, std::move(task));
    } catch (const Error& error) {
      throw Error{error.code(), describe("GET", target) + error.what()};
    }
    if (!response) throw Error{Code::unavailable, describe("GET", target) + "no response in time"};
    co_return std::move(*response);
  }

  awaitable<Upgraded> upgrade(std::string method, std::string target, std::string protocol,
                              std::vector<Header> headers, std::string body) {
    headers.push_back({"Connection", "Upgrade"});
    headers.push_back({"Upgrade", std::move(protocol)});
    const std::string message =
        serialize_request(method, target, endpoint_.host_header(), headers, body);
    auto task = run_upgrade(message);
    std::optional<Upgraded> upgraded;
    try {
      upgraded = co_await within(limits_.time, std::move(task));
    } catch (const Error& error) {
      throw Error{error.code(), describe(method, target) + error.what()};
    }
    if (!upgraded) {
      throw Error{Code::unavailable, describe(method, target) + "no response in time"};
    }
    co_return std::move(*upgraded);
  }

 private:
  awaitable<Upgraded> run_upgrade(const std::string& message) {
    Link link{executor_};
    co_await link.connect(endpoint_);
    const ResponseParser::Limits limits{
        .head = limits_.head, .body = limits_.body, .upgrade = true};
    ResponseParser parser{limits, false};
    try {
      co_await link.exchange(message, parser);
    } catch (const LinkClosed&) {
      throw Error{Code::unavailable, "the connection ended before a response"};
    }
    Upgraded upgraded;
    upgraded.response = std::move(parser.response());
    if (upgraded.response.status == 101) {
      upgraded.rest = link.buffer().view();
      upgraded.socket = link.socket().release();
    }
    co_return upgraded;
  }

  awaitable<Response> run_beginning(const std::string& message, Bytes most) {
    Link link{executor_};
    co_await link.connect(endpoint_);
    const ResponseParser::Limits limits{.head = limits_.head, .body = Bytes{UINT64_MAX}};
    ResponseParser parser{limits, false};
    try {
      co_await link.exchange(message, parser, most);
    } catch (const LinkClosed&) {
      throw Error{Code::unavailable, "the connection ended before a response"};
    }
    co_return std::move(parser.response());
  }

  std::string describe(const std::string& method, const std::string& target) const {
    return method + ' ' + target + " at " + endpoint_.text() + ": ";
  }

  awaitable<Response> run(const std::string& method, const std::string& message) {
    for (;;) {
      std::unique_ptr<Link> link = take_idle();
      const bool kept = link != nullptr;
      if (!link) {
        link = std::make_unique<Link>(executor_);
        co_await link->connect(endpoint_);
      }
      const ResponseParser::Limits limits{.head = limits_.head, .body = limits_.body};
      ResponseParser parser{limits, method == "HEAD"};
      try {
        co_await link->exchange(message, parser);
      } catch (const LinkClosed&) {
        if (kept && may_repeat(method)) continue;
        throw Error{Code::unavailable, "the connection ended before a response"};
      }
      if (parser.keep_alive() && idle_.size() < limits_.idle) idle_.push_back(std::move(link));
      co_return std::move(parser.response());
    }
  }

  // The connection used last, of those that the server has not closed meanwhile; or null.
  std::unique_ptr<Link> take_idle() {
    while (!idle_.empty()) {
      std::unique_ptr<Link> link = std::move(idle_.back());
      idle_.pop_back();
      if (link->usable()) return link;
    }
    return nullptr;
  }

  asio::any_io_executor executor_;
  Endpoint endpoint_;
  ClientLimits limits_;
  std::vector<std::unique_ptr<Link>> idle_;
};

Client::Client(asio::any_io_executor executor, Endpoint endpoint, ClientLimits limits)
    : impl_(std::make_unique<Impl>(executor, std::move(endpoint), limits)) {}

Client::~Client() = default;

awaitable<Response> Client::request(std::string method, std::string target,
                                    std::vector<Header> headers, std::string body) {
  return impl_->request(std::move(method), std::move(target), std::move(headers), std::move(body));
}

awaitable<Upgraded> Client::upgrade(std::string method, std::string target, std::string protocol,
                                    std::vector<Header> headers, std::string body) {
  return impl_->upgrade(std::move(method), std::move(target), std::move(protocol),
                        std::move(headers), std::move(body));
}

awaitable<Response> Client::get_beginning(std::string target, Bytes most) {
  return impl_->get_beginning(std::move(target), most);
}

awaitable<Response> Client::get(std::string target) {
  return impl_->request("GET", std::move(target), {}, {});
}

}  // namespace tb::http
