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

// The value of "name":"…" in a flat JSON answer.
std::string text_field(const std::string& json, const std::string& name) {
  const std::string key = "\"" + name + "\":\"";
  const std::size_t at = json.find(key);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + key.size();
  return json.substr(begin, json.find('"', begin) - begin);
}

}  // namespace

BenchServer::BenchServer(const Config& config, std::size_t pool, unsigned cpu_quota,
                         const std::vector<std::string>& more) {
  std::vector<std::string> env = {
      "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
      "HOST=127.0.0.1",
      "PORT=0",
      "LOG_LEVEL=error",
      "STATE_DIR=" + config.state_dir,
      "POOL_SIZE=" + std::to_string(pool),
      "MAX_POOL_SIZE=100000",
      "CPU_QUOTA=" + std::to_string(cpu_quota),
      "DEFAULT_POLICY=strict",
  };
  env.insert(env.end(), more.begin(), more.end());
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

void BenchClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n =
        check(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), "send");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::size_t BenchClient::read_some(char* buffer, std::size_t room) {
  const ssize_t n = check(::recv(socket_.get(), buffer, room, 0), "receive");
  if (n == 0) throw Error{Code::unavailable, "the server closed the connection"};
  return static_cast<std::size_t>(n);
}

std::uint64_t BenchClient::read_head(std::string& rest, std::string_view status,
                                     std::string* head) {
  char buffer[16 << 10];
  std::size_t end = std::string::npos;
  while ((end = rest.find("\r\n\r\n")) == std::string::npos) {
    rest.append(buffer, read_some(buffer, sizeof buffer));
  }
  // 201 is as good as 200.
  const std::string_view told = std::string_view{rest}.substr(9, 3);
  if (told != status && (status != "200" || told != "201"))
    throw Error{Code::internal, rest.substr(0, 600)};
  constexpr std::string_view kLength = "\r\nContent-Length: ";
  const std::size_t length = rest.find(kLength);
  std::uint64_t body = 0;
  if (length < end) {
    std::from_chars(rest.data() + length + kLength.size(), rest.data() + end, body);
  }
  if (head) *head = rest.substr(0, end + 2);
  rest.erase(0, end + 4);
  return body;
}

std::string BenchClient::receive() {
  std::string body;
  const std::uint64_t length = read_head(body);
  char buffer[64 << 10];
  while (body.size() < length) body.append(buffer, read_some(buffer, sizeof buffer));
  return body;
}

void BenchClient::send_post(const std::string& path, const std::string& body) {
  send("POST " + path + " HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n" +
       credential_ + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
}

std::string BenchClient::post(const std::string& path, const std::string& body) {
  send_post(path, body);
  return receive();
}

std::string BenchClient::get(const std::string& path) {
  send("GET " + path + " HTTP/1.1\r\nHost: bench\r\n" + credential_ + "\r\n");
  return receive();
}

std::string BenchClient::create_session() {
  return text_field(post("/create_session", "{}"), "session_id");
}

void BenchClient::cleanup(const std::string& session) {
  post("/cleanup", "{\"session_id\":\"" + session + "\"}");
}

void BenchClient::wait_for_pool(std::size_t size) {
  const std::string full = "\"pool_available\":" + std::to_string(size) + ",";
  const timespec pause{0, 5000000};
  while (get("/health").find(full) == std::string::npos) ::nanosleep(&pause, nullptr);
}

void BenchClient::upload(const std::string& session, const std::string& name,
                         std::string_view content) {
  const std::string before =
      "--bench\r\nContent-Disposition: form-data; name=\"session_id\"\r\n\r\n" + session +
      "\r\n--bench\r\nContent-Disposition: form-data; name=\"file\"; filename=\"" + name +
      "\"\r\nContent-Type: application/octet-stream\r\n\r\n";
  const std::string after = "\r\n--bench--\r\n";
  send(
      "POST /upload_file HTTP/1.1\r\nHost: bench\r\n"
      "Content-Type: multipart/form-data; boundary=bench\r\nContent-Length: " +
      std::to_string(before.size() + content.size() + after.size()) + "\r\n\r\n" + before);
  send(content);
  send(after);
  const std::string answer = receive();
  if (answer.find("\"size_bytes\":" + std::to_string(content.size())) == std::string::npos) {
    throw Error{Code::internal, "an upload was cut: " + answer};
  }
}

void BenchClient::download(const std::string& session, const std::string& name,
                           std::uint64_t size) {
  send_post("/download_file", "{\"session_id\":\"" + session + "\",\"filename\":\"" + name + "\"}");
  std::string first;
  if (read_head(first) != size) throw Error{Code::internal, "a download has another size"};
  std::vector<char> buffer(256 << 10);
  for (std::uint64_t got = first.size(); got < size;)
    got += read_some(buffer.data(), buffer.size());
}

}  // namespace tb::cli
