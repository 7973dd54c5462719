// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_http.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <charconv>
#include <cstring>
#include <vector>

namespace tb::cli {
namespace {

std::uint16_t port_in(const std::string& line) {
  const std::size_t host = line.find("http://127.0.0.1:");
  if (host == std::string::npos) throw Error{Code::internal, "the server did not start: " + line};
  unsigned port = 0;
  const char* at = line.data() + host + std::strlen("http://127.0.0.1:");
  std::from_chars(at, line.data() + line.size(), port);
  return static_cast<std::uint16_t>(port);
}

}  // namespace

BenchServer::BenchServer(const Config& config, std::size_t pool, unsigned cpu_quota) {
  const std::vector<std::string> env = {
      "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
      "HOST=127.0.0.1",
      "PORT=0",
      "LOG_LEVEL=error",
      "STATE_DIR=" + config.state_dir,
      "POOL_SIZE=" + std::to_string(pool),
      "MAX_POOL_SIZE=100000",
      "CPU_QUOTA=" + std::to_string(cpu_quota),
  };
  std::vector<char*> envp;
  for (const std::string& entry : env) envp.push_back(const_cast<char*>(entry.c_str()));
  envp.push_back(nullptr);
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC), "pipe");
  os::Fd reading{ends[0]};
  os::Fd writing{ends[1]};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, writing.get(), 1);
  const char* argv[] = {"threadbox", "serve", nullptr};
  const int result = ::posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr,
                                   const_cast<char* const*>(argv), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (result != 0) throw SystemError{result, "start a server"};
  writing.reset();
  std::string said;
  char buffer[512];
  ssize_t n;
  while (said.find('\n') == std::string::npos &&
         (n = ::read(reading.get(), buffer, sizeof buffer)) > 0) {
    said.append(buffer, static_cast<std::size_t>(n));
  }
  port_ = port_in(said);
}

BenchServer::~BenchServer() {
  ::kill(pid_, SIGTERM);
  ::waitpid(pid_, nullptr, 0);
}

BenchClient::BenchClient(std::uint16_t port) {
  socket_ = os::Fd{check(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket")};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  check(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address),
        "connect to the benchmark's server");
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

std::string BenchClient::exchange(const std::string& request) {
  check(::send(socket_.get(), request.data(), request.size(), MSG_NOSIGNAL), "send");
  std::string answer;
  char buffer[64 << 10];
  std::size_t need = std::string::npos;
  std::size_t head = 0;
  while (answer.size() < need) {
    const ssize_t n = check(::recv(socket_.get(), buffer, sizeof buffer, 0), "receive");
    if (n == 0) throw Error{Code::unavailable, "the server closed the connection"};
    answer.append(buffer, static_cast<std::size_t>(n));
    if (need != std::string::npos) continue;
    const std::size_t end = answer.find("\r\n\r\n");
    if (end == std::string::npos) continue;
    const std::size_t length = answer.find("Content-Length: ");
    std::size_t body = 0;
    if (length != std::string::npos) {
      std::from_chars(answer.data() + length + 16, answer.data() + answer.size(), body);
    }
    head = end + 4;
    need = head + body;
  }
  if (answer.compare(9, 3, "200") != 0) throw Error{Code::internal, answer.substr(0, 300)};
  return answer.substr(head);
}

std::string BenchClient::post(const std::string& path, const std::string& body) {
  return exchange("POST " + path +
                  " HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n" +
                  "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
}

std::string BenchClient::get(const std::string& path) {
  return exchange("GET " + path + " HTTP/1.1\r\nHost: bench\r\n\r\n");
}

std::string text_field(const std::string& json, const std::string& name) {
  const std::string key = "\"" + name + "\":\"";
  const std::size_t at = json.find(key);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + key.size();
  return json.substr(begin, json.find('"', begin) - begin);
}

}  // namespace tb::cli
