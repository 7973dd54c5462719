// SPDX-License-Identifier: Apache-2.0
#include "docker/door.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <boost/asio/io_context.hpp>
#include <cstring>
#include <filesystem>

#include "os/test_dir.h"

namespace tb::docker {
namespace {

class DoorTest : public testing::Test {
 protected:
  DoorTest() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends_), 0);
    instead = os::Fd{ends_[0]};
    engine = os::Fd{ends_[1]};
  }

  // As a carrier does.
  os::Fd knock(const Door& door, std::string_view word) {
    os::Fd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = dir.path() + "/" + door.name();
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::send(socket.get(), word.data(), word.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(word.size()));
    return socket;
  }

  os::Fd admit(Door& door) {
    os::Fd come;
    auto task = [&]() -> awaitable<void> { come = co_await door.admit(instead.get(), 10s); };
    asio::co_spawn(loop, task, [](std::exception_ptr failure) { EXPECT_FALSE(failure); });
    loop.run_for(std::chrono::seconds{20});
    return come;
  }

  int ends_[2] = {-1, -1};
  os::Fd instead, engine;
  os::TestDir dir;
  asio::io_context loop{1};
};

TEST_F(DoorTest, WhoHasTheTokenIsLetInAndNobodyElse) {
  Door door{loop.get_executor(), dir.path()};
  ASSERT_FALSE(door.token().empty());
  const os::Fd stranger = knock(door, std::string(door.token().size(), 'x'));
  const os::Fd carrier = knock(door, door.token());
  const os::Fd come = admit(door);
  ASSERT_TRUE(come);
  ASSERT_EQ(::send(carrier.get(), "hello", 5, 0), 5);
  char text[5];
  EXPECT_EQ(::recv(come.get(), text, sizeof text, 0), 5);
}

TEST_F(DoorTest, ACarrierThatAnswersThroughTheEngineIsNotWaitedFor) {
  Door door{loop.get_executor(), dir.path()};
  ASSERT_EQ(::send(engine.get(), "x", 1, 0), 1);
  EXPECT_FALSE(admit(door));
}

TEST_F(DoorTest, WhatItWaitedForIsNotClosedWhenTheWaitIsGivenUp) {
  Door door{loop.get_executor(), dir.path()};
  const os::Fd carrier = knock(door, "");  // and says nothing
  {
    TaskGroup tasks{loop.get_executor(), [](const std::string&, std::exception_ptr) {}};
    tasks.spawn("admit", [&]() -> awaitable<void> {
      const os::Fd come = co_await door.admit(instead.get(), 10s);
    });
    loop.run_for(std::chrono::milliseconds{50});
    auto stop = [&]() -> awaitable<void> { co_await tasks.close(); };
    asio::co_spawn(loop, stop, [](std::exception_ptr failure) { EXPECT_FALSE(failure); });
    loop.run_for(std::chrono::seconds{20});
  }
  // A number that was closed twice may be anybody's in between; here it is nobody's.
  EXPECT_GE(::fcntl(instead.get(), F_GETFD), 0);
  const os::Fd again = knock(door, door.token());
  EXPECT_TRUE(again);
}

TEST_F(DoorTest, NothingIsLeftOfIt) {
  {
    const Door door{loop.get_executor(), dir.path()};
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST_F(DoorTest, WithoutADirectoryItIsNotOpen) {
  for (const std::string& nowhere : {std::string{}, dir.path() + "/nothing"}) {
    Door door{loop.get_executor(), nowhere};
    EXPECT_TRUE(door.token().empty());
    EXPECT_FALSE(admit(door));
    loop.restart();
  }
}

}  // namespace
}  // namespace tb::docker
