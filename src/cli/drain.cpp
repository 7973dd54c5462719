// SPDX-License-Identifier: Apache-2.0
// Sends the sessions of this worker away before it is stopped.
#include <boost/json.hpp>
#include <cstdio>

#include "base/async.h"
#include "base/error.h"
#include "cli/commands.h"
#include "http/client.h"

namespace tb::cli {
namespace {

namespace json = boost::json;

http::Endpoint endpoint_of(const Config& config) {
  const bool any = config.host == "0.0.0.0" || config.host == "::" || config.host.empty();
  return http::Endpoint::tcp(any ? "127.0.0.1" : config.host, config.port);
}

awaitable<json::object> ask(http::Client& client, const Config& config, std::string method) {
  std::vector<http::Header> headers{{"X-Cluster-Secret", config.cluster_secret}};
  const http::Response answer =
      co_await client.request(std::move(method), "/admin/drain", std::move(headers), {});
  json::error_code error;
  const json::value body = json::parse(answer.body, error);
  const json::object* object = error ? nullptr : body.if_object();
  if (answer.status == 200 && object) co_return *object;
  const json::value* said = object ? object->if_contains("error") : nullptr;
  throw Error{Code::unavailable,
              "the worker answered " + std::to_string(answer.status) + ": " +
                  (said && said->is_string() ? said->get_string().c_str() : answer.body.c_str())};
}

std::uint64_t number(const json::object& state, const char* name) {
  const json::value* value = state.if_contains(name);
  return value ? value->to_number<std::uint64_t>() : 0;
}

// A line whenever something has changed.
awaitable<void> wait_until_empty(http::Client& client, const Config& config) {
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer{executor};
  json::object state = co_await ask(client, config, "POST");
  std::string last;
  for (;;) {
    const std::uint64_t left = number(state, "sessions_left");
    const std::uint64_t tied = number(state, "sessions_with_volumes");
    std::string line = std::to_string(number(state, "sessions_moved")) + " sessions moved, " +
                       std::to_string(left) + " left";
    if (tied > 0) line += ", " + std::to_string(tied) + " of them have volumes here and stay";
    const json::value* problem = state.if_contains("problem");
    if (problem && problem->is_string()) line += "; " + std::string{problem->get_string()};
    if (line != last) std::printf("%s\n", line.c_str());
    std::fflush(stdout);
    last = line;
    if (left == tied) co_return;
    timer.expires_after(500ms);
    co_await timer.async_wait(asio::use_awaitable);
    state = co_await ask(client, config, "GET");
  }
}

}  // namespace

int drain(const Config& config, bool undo) {
  asio::io_context loop{1};
  http::Client client{loop.get_executor(), endpoint_of(config)};
  std::exception_ptr failure;
  auto task = [&]() -> awaitable<void> {
    if (!undo) {
      co_await wait_until_empty(client, config);
      co_return;
    }
    co_await ask(client, config, "DELETE");
    std::printf("this worker takes sessions again\n");
  };
  asio::co_spawn(loop, task, [&](std::exception_ptr error) { failure = error; });
  loop.run();
  if (failure) std::rethrow_exception(failure);
  return 0;
}

}  // namespace tb::cli
