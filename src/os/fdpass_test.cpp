// SPDX-License-Identifier: Apache-2.0
#include "os/fdpass.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>

#include "os/fault.h"
#include "os/fd.h"

namespace tb::os {
namespace {

namespace fs = std::filesystem;

struct Pair {
  Fd a;
  Fd b;
  Pair() {
    int ends[2];
    check(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "socketpair");
    a = Fd{ends[0]};
    b = Fd{ends[1]};
  }
};

std::size_t open_descriptors() {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator{"/proc/self/fd"}, fs::directory_iterator{}));
}

struct Received {
  int result;
  std::string text;
  std::vector<Fd> fds;
};

Received receive(const Fd& socket, std::size_t capacity = 4096) {
  std::string buffer(capacity, '\0');
  Packet packet{buffer.data(), buffer.size()};
  Received received{receive_packet(socket.get(), packet), {}, {}};
  const int error = errno;
  received.text = buffer.substr(0, packet.size);
  for (std::size_t i = 0; i < packet.fd_count; ++i) received.fds.emplace_back(packet.fds[i]);
  errno = error;
  return received;
}

TEST(FdPass, WhatWasSentIsReadAlthoughItsSenderDidNotReadEverything) {
  Pair pair;
  EXPECT_EQ(send_packet(pair.b.get(), "never read"), 1);
  EXPECT_EQ(send_packet(pair.a.get(), "one"), 1);
  EXPECT_EQ(send_packet(pair.a.get(), "two"), 1);
  pair.a.reset();
  EXPECT_EQ(receive(pair.b).text, "one");
  EXPECT_EQ(receive(pair.b).text, "two");
  EXPECT_EQ(receive(pair.b).result, 0);
}

TEST(FdPass, PacketsKeepTheirBorders) {
  Pair pair;
  EXPECT_EQ(send_packet(pair.a.get(), "one"), 1);
  EXPECT_EQ(send_packet(pair.a.get(), "two, longer"), 1);
  EXPECT_EQ(receive(pair.b).text, "one");
  EXPECT_EQ(receive(pair.b).text, "two, longer");
  EXPECT_EQ(receive(pair.b).result, -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(FdPass, DescriptorsArriveInOrderAndCloseOnExec) {
  Pair pair;
  std::vector<Fd> files;
  int raw[kMaxPassed];
  for (std::size_t i = 0; i < kMaxPassed; ++i) {
    files.push_back(sealed_memfd("x", std::string(i + 1, 'a'), false));
    raw[i] = files[i].get();
  }
  EXPECT_EQ(send_packet(pair.a.get(), "files", raw, kMaxPassed), 1);
  const Received received = receive(pair.b);
  EXPECT_EQ(received.text, "files");
  ASSERT_EQ(received.fds.size(), kMaxPassed);
  for (std::size_t i = 0; i < kMaxPassed; ++i) {
    EXPECT_EQ(::lseek(received.fds[i].get(), 0, SEEK_END), static_cast<off_t>(i + 1));
    EXPECT_EQ(::fcntl(received.fds[i].get(), F_GETFD), FD_CLOEXEC);
  }
}

TEST(FdPass, APacketThatIsTooLargeIsRefusedAndItsDescriptorsAreClosed) {
  Pair pair;
  const int raw[] = {0, 1};
  EXPECT_EQ(send_packet(pair.a.get(), "longer than the buffer", raw, 2), 1);
  const std::size_t before = open_descriptors();
  const Received received = receive(pair.b, 4);
  EXPECT_EQ(received.result, -1);
  EXPECT_EQ(errno, EMSGSIZE);
  EXPECT_TRUE(received.fds.empty());
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(send_packet(pair.a.get(), "next"), 1);
  EXPECT_EQ(receive(pair.b).text, "next");
}

TEST(FdPass, OfMoreDescriptorsThanThereIsRoomForNoneIsKept) {
  Pair pair;
  constexpr std::size_t kMany = 20;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMany)] = {};
  char byte = 'x';
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * kMany);  // all of them 0: standard input
  ASSERT_EQ(::sendmsg(pair.a.get(), &message, 0), 1);
  const std::size_t before = open_descriptors();
  const Received received = receive(pair.b);
  EXPECT_EQ(received.result, 1);
  EXPECT_EQ(received.text, "x");
  EXPECT_TRUE(received.fds.empty());
  EXPECT_EQ(open_descriptors(), before);
}

TEST(FdPass, TheEndIsZero) {
  Pair pair;
  EXPECT_EQ(send_packet(pair.a.get(), "last"), 1);
  pair.a.reset();
  EXPECT_EQ(receive(pair.b).text, "last");
  EXPECT_EQ(receive(pair.b).result, 0);
}

TEST(FdPass, SendingToNobodyIsAnErrorAndNoSignal) {
  Pair pair;
  pair.b.reset();
  EXPECT_EQ(send_packet(pair.a.get(), "x"), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST(FdPass, AFullSocketIsZeroAndTakesMoreLater) {
  Pair pair;
  const std::string packet(1000, 'x');
  int sent = 0;
  while (send_packet(pair.a.get(), packet) == 1 && sent < 100000) ++sent;
  EXPECT_GT(sent, 1);
  EXPECT_EQ(send_packet(pair.a.get(), packet), 0);
  for (int i = 0; i < sent; ++i) EXPECT_EQ(receive(pair.b).text, packet);
  EXPECT_EQ(send_packet(pair.a.get(), packet), 1);
}

TEST(FdPass, ThePromisedSizeFits) {
  Pair pair;
  const std::string packet(kMaxPacket, 'x');
  ASSERT_EQ(send_packet(pair.a.get(), packet), 1);
  EXPECT_EQ(receive(pair.b, kMaxPacket).text, packet);
}

TEST(Fault, TheNthAttemptFailsOnce) {
  for (unsigned n = 1; n <= 4; ++n) {
    fail_attempt(n);
    for (unsigned i = 1; i <= 6; ++i) {
      bool ran = false;
      const auto call = [&ran] {
        ran = true;
        return 5;
      };
      if (i == n) {
        EXPECT_THROW(attempt("do it", call), SystemError);
        EXPECT_FALSE(ran);
      } else {
        EXPECT_EQ(attempt("do it", call), 5);
      }
    }
  }
}

TEST(Fault, ZeroMeansNone) {
  fail_attempt(2);
  fail_attempt(0);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(attempt_must_fail());
}

TEST(Fault, ARealFailureIsTold) {
  fail_attempt(0);
  try {
    attempt("close nothing", [] { return ::close(-1); });
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_EQ(error.number(), EBADF);
  }
}

}  // namespace
}  // namespace tb::os
