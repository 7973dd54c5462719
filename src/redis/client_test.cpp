// SPDX-License-Identifier: Apache-2.0
// Against a real redis-server on loopback, where there is one.
#include "redis/client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "base/error.h"
#include "base/test_loop.h"
#include "os/test_dir.h"

namespace tb::redis {
namespace {

constexpr const char* kProgram = "/usr/bin/redis-server";

std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(fd);
  return ntohs(address.sin_port);
}

class RedisClient : public testing::Test {
 protected:
  void SetUp() override {
    if (::access(kProgram, X_OK) != 0) GTEST_SKIP() << "there is no redis-server";
    start();
  }
  void TearDown() override {
    for (auto& client : clients_) loop_.run(client->close());
    stop();
  }

  void start() {
    std::vector<std::string> words{kProgram,    "--port",        std::to_string(port_), "--bind",
                                   "127.0.0.1", "--dir",         dir_.path(),           "--save",
                                   "",          "--requirepass", "open sesame",         "--logfile",
                                   dir_ / "log"};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    ASSERT_EQ(::posix_spawn(&pid_, kProgram, nullptr, nullptr, argv.data(), environ), 0);
  }
  void stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  Settings settings() const {
    Settings settings;
    settings.port = port_;
    settings.password = "open sesame";
    settings.first_retry = 5ms;
    settings.last_retry = 20ms;
    return settings;
  }
  Client& open(Settings with) {
    clients_.push_back(std::make_unique<Client>(loop_.executor(), std::move(with)));
    clients_.back()->open();
    return *clients_.back();
  }
  awaitable<void> reach(Client& client) {
    asio::steady_timer timer{loop_.executor()};
    while (!client.connected()) {
      timer.expires_after(5ms);
      co_await timer.async_wait(asio::use_awaitable);
    }
  }
  Client& connected(Settings with) {
    Client& client = open(std::move(with));
    loop_.run(reach(client));
    return client;
  }
  std::string text(Client& client, Command command) {
    return loop_.run(client.call(std::move(command))).text;
  }

  os::TestDir dir_;
  std::uint16_t port_ = free_port();
  pid_t pid_ = 0;
  TestLoop loop_;
  std::vector<std::unique_ptr<Client>> clients_;
};

TEST_F(RedisClient, ConnectsWithAPasswordAndKnowsTheRun) {
  Client& client = connected(settings());
  EXPECT_EQ(client.run_id().size(), 40u);
  const std::string bytes{"a\0\r\nb", 5};
  EXPECT_EQ(text(client, {"SET", "key", bytes}), "OK");
  EXPECT_EQ(text(client, {"GET", "key"}), bytes);
  EXPECT_TRUE(loop_.run(client.call({"GET", "none"})).is_nothing());
}

TEST_F(RedisClient, SpeaksAsAUserAndInADatabase) {
  Client& admin = connected(settings());
  text(admin, {"ACL", "SETUSER", "worker", "on", ">secret", "~*", "+@all"});
  Settings with = settings();
  with.user = "worker";
  with.password = "secret";
  with.database = 3;
  Client& client = connected(with);
  EXPECT_EQ(text(client, {"ACL", "WHOAMI"}), "worker");
  text(client, {"SET", "here", "1"});
  EXPECT_TRUE(loop_.run(admin.call({"GET", "here"})).is_nothing());
}

TEST_F(RedisClient, SaysWhyItIsNotLetIn) {
  Settings with = settings();
  with.password = "wrong";
  connected(settings());  // it runs
  Client& client = open(with);
  asio::steady_timer timer{loop_.executor()};
  const auto refused = [&]() -> awaitable<void> {
    while (client.problem().find("WRONGPASS") == std::string::npos) {
      timer.expires_after(5ms);
      co_await timer.async_wait(asio::use_awaitable);
    }
  };
  loop_.run(refused());
  EXPECT_FALSE(client.connected());
  EXPECT_THROW(loop_.run(client.call({"PING"})), Error);
}

TEST_F(RedisClient, KeepsTheOrderOfManyCommandsAtOnce) {
  Client& client = connected(settings());
  std::vector<Command> commands;
  for (int i = 0; i < 1000; ++i) commands.push_back({"INCR", "n"});
  commands.push_back({"LPUSH", "n", "x"});
  const std::vector<Reply> replies = loop_.run(client.call_all(std::move(commands)));
  ASSERT_EQ(replies.size(), 1001u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(replies[i].number, i + 1);
  EXPECT_TRUE(replies[1000].is_error());
}

TEST_F(RedisClient, TellsRedisAScriptThatItDoesNotKnow) {
  Client& client = connected(settings());
  const Script script{"return {KEYS[1], ARGV[1]}"};
  for (int i = 0; i < 2; ++i) {
    const Reply reply = loop_.run(client.run(script, {"k"}, {"a"}));
    EXPECT_EQ(reply.at(0) + reply.at(1), "ka");
    if (i == 0) text(client, {"SCRIPT", "FLUSH"});
  }
  EXPECT_THROW(loop_.run(client.run(Script{"return redis.call('NO')"}, {}, {})), Error);
}

TEST_F(RedisClient, ComesBackAfterARestartAndSeesAnotherRun) {
  Client& client = connected(settings());
  const std::string before = client.run_id();
  stop();
  EXPECT_THROW(loop_.run(client.call({"PING"})), Error);
  start();
  loop_.run(reach(client));
  EXPECT_NE(client.run_id(), before);
  EXPECT_EQ(text(client, {"PING"}), "PONG");
}

TEST_F(RedisClient, WaitsNoLongerThanItSays) {
  Settings with = settings();
  with.answer = 100ms;
  Client& client = connected(with);
  ::kill(pid_, SIGSTOP);
  EXPECT_THROW(loop_.run(client.call({"PING"})), Error);
  EXPECT_FALSE(client.connected());
  ::kill(pid_, SIGCONT);
  loop_.run(reach(client));
}

}  // namespace
}  // namespace tb::redis
