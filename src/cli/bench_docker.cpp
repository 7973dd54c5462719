// SPDX-License-Identifier: Apache-2.0
// The same through a Docker Engine's API, where one answers.

#include <unistd.h>

#include <boost/json.hpp>
#include <cstdio>

#include "base/error.h"
#include "base/id.h"
#include "cli/bench_http.h"
#include "cli/bench_rows.h"
#include "cli/docker.h"
#include "http/client.h"

namespace tb::cli {
namespace json = boost::json;
namespace {

constexpr unsigned kRounds = 20;
constexpr const char* kDefaultSocket = "/var/run/docker.sock";

class Docker {
 public:
  Docker(asio::any_io_executor executor, std::string socket)
      : client_(executor, http::Endpoint::unix_socket(std::move(socket))) {}

  awaitable<json::value> call(std::string method, std::string path, json::object body = {}) {
    std::vector<http::Header> headers{{"Content-Type", "application/json"}};
    std::string text = json::serialize(body);
    const http::Response response =
        co_await client_.request(method, path, std::move(headers), std::move(text));
    if (response.status >= 400) {
      throw Error{Code::unavailable, "docker " + path + ": " + response.body};
    }
    boost::system::error_code ignored;
    co_return json::parse(response.body, ignored);
  }

  // Any image that it has; empty: none.
  awaitable<std::string> find_image() {
    const json::value images = co_await call("GET", "/images/json");
    const json::array* list = images.if_array();
    if (!list || list->empty()) co_return std::string{};
    co_return std::string{list->front().at("Id").as_string()};
  }

  awaitable<std::string> create(std::string image) {
    json::object body{{"Image", image},
                      {"Cmd", json::array{"sleep", "3600"}},
                      {"HostConfig", json::object{{"NetworkMode", "none"}}}};
    const json::value made = co_await call("POST", "/containers/create", std::move(body));
    const std::string id{made.at("Id").as_string()};
    co_await call("POST", "/containers/" + id + "/start");
    co_return id;
  }

  awaitable<void> exec(std::string id) {
    json::object body{{"Cmd", json::array{"bash", "-c", "true"}}, {"AttachStdout", true}};
    const json::value made = co_await call("POST", "/containers/" + id + "/exec", std::move(body));
    const std::string exec_id{made.at("Id").as_string()};
    json::object start{{"Detach", false}, {"Tty", false}};
    co_await call("POST", "/exec/" + exec_id + "/start", std::move(start));
    co_await call("GET", "/exec/" + exec_id + "/json");
  }

  awaitable<void> remove(std::string id) {
    co_await call("DELETE", "/containers/" + id + "?force=1");
  }

 private:
  http::Client client_;
};

constexpr const char* kCreate = "Docker API: create and start";
constexpr const char* kSame = "Docker API: exec in our container";

// One container of ours, and the engine's own way to run a command in the same one.
awaitable<void> exec_in_container(Bench& bench, Docker& docker, const Config& config) {
  docker::DockerProvider provider{co_await asio::this_coro::executor, docker_settings(config)};
  sandbox::SandboxSpec spec;
  spec.id = make_uuid();
  spec.limits.cpu_quota = kFullCore;
  spec.environment.clear();  // the image of the settings
  const std::string id = spec.id;
  const auto sandbox = co_await provider.create(std::move(spec));
  Samples ours, engine;
  // In turns: what disturbs one of them disturbs the other.
  for (unsigned round = 0; round < 2 * kRounds + kWarmup; ++round) {
    const auto began = BenchClock::now();
    co_await exec(*sandbox, "true");
    const auto between = BenchClock::now();
    co_await docker.exec("threadbox-" + id);
    if (round < kWarmup) continue;
    ours.add(between - began);
    engine.add(BenchClock::now() - between);
  }
  co_await provider.destroy(id);
  co_await provider.close();
  bench.table.add(kSame, std::move(engine));
  bench.table.add("container: exec bash -c true", std::move(ours), kSame);
}

awaitable<void> pooled_container(Bench& bench, const Config& config) {
  const std::vector<std::string> settings = {"SANDBOX_PROVIDER=docker",
                                             "DOCKER_HOST=unix://" + config.docker_socket,
                                             "CONTAINER_IMAGE=" + config.docker_image};
  constexpr unsigned kReady = 10;
  Samples create;
  {
    BenchServer server{config, kReady, kFullCore, settings};
    BenchClient client{server.port()};
    client.wait_for_pool(kReady);
    for (unsigned round = 0; round < kReady; ++round) {
      const auto began = BenchClock::now();
      const std::string id = client.create_session();
      create.add(BenchClock::now() - began);
      client.cleanup(id);
    }
  }
  bench.table.add("HTTP: create session, pooled container", std::move(create), kCreate);
  docker::DockerProvider provider{co_await asio::this_coro::executor, docker_settings(config)};
  const std::vector<sandbox::Found> left = co_await provider.list();
  for (const sandbox::Found& found : left) co_await provider.destroy(found.id);
  co_await provider.close();
}

}  // namespace

// Adds no row where no engine answers or it lacks the image.
awaitable<void> docker_rows(Bench& bench) {
  const BenchOptions& options = bench.options;
  const std::string socket = options.docker.empty() ? kDefaultSocket : options.docker;
  if (::access(socket.c_str(), R_OK | W_OK) != 0) co_return;
  Docker docker{co_await asio::this_coro::executor, socket};
  std::string image = options.image;
  if (image.empty()) image = co_await docker.find_image();
  if (image.empty()) co_return;
  Samples create, exec, remove;
  for (unsigned round = 0; round < kRounds; ++round) {
    const auto began = BenchClock::now();
    const std::string id = co_await docker.create(image);
    const auto created = BenchClock::now();
    co_await docker.exec(id);
    const auto executed = BenchClock::now();
    co_await docker.remove(id);
    create.add(created - began);
    exec.add(executed - created);
    remove.add(BenchClock::now() - executed);
  }
  bench.table.add(kCreate, std::move(create));
  bench.table.add("Docker API: exec bash -c true", std::move(exec));
  bench.table.add("Docker API: remove", std::move(remove));
  Config config = bench.config;
  config.docker_socket = socket;
  config.docker_image = image;
  co_await pooled_container(bench, config);
  config.state_dir += "/own";  // of this process, who is not the server's user
  co_await exec_in_container(bench, docker, config);
}

}  // namespace tb::cli
