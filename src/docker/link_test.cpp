// SPDX-License-Identifier: Apache-2.0
#include "docker/link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>

namespace tb::docker {
namespace {

using guest::carrier::frame;
using guest::carrier::Frames;
using guest::carrier::Kind;

std::string piece(char stream, std::string_view bytes) {
  std::string text(8, '\0');
  text[0] = stream;
  text[6] = static_cast<char>(bytes.size() >> 8);
  text[7] = static_cast<char>(bytes.size());
  return text.append(bytes);
}

TEST(Pieces, AreTakenOutHoweverTheyAreCut) {
  const std::string all = piece(1, "hello ") + piece(2, "oops") + piece(1, std::string(300, 'x'));
  for (std::size_t size = 1; size < all.size(); ++size) {
    Pieces pieces;
    std::string out;
    for (std::size_t at = 0; at < all.size(); at += size) out += pieces.take(all.substr(at, size));
    EXPECT_EQ(out, "hello " + std::string(300, 'x'));
    EXPECT_EQ(pieces.errors(), "oops");
    EXPECT_FALSE(pieces.broken());
  }
}

TEST(Pieces, WhatIsNoPieceEndsIt) {
  Pieces pieces;
  EXPECT_EQ(pieces.take("HTTP/1.1 500 oh no"), "");
  EXPECT_TRUE(pieces.broken());
}

TEST(Frames, ComeOutHoweverTheyAreCut) {
  const std::string all = frame(Kind::told, "one") + frame(Kind::output, "") +
                          frame(Kind::file_data, std::string(5000, 'z'));
  for (const std::size_t size : {1, 3, 7, 4096, 100000}) {
    Frames frames;
    std::vector<std::string> got;
    for (std::size_t at = 0; at < all.size(); at += size) {
      frames.add(all.substr(at, size));
      Kind kind{};
      std::string_view payload;
      while (frames.next(kind, payload)) got.emplace_back(payload);
    }
    EXPECT_EQ(got, (std::vector<std::string>{"one", "", std::string(5000, 'z')}));
    EXPECT_FALSE(frames.broken());
  }
}

TEST(Frames, OneThatIsTooLargeIsNotWaitedFor) {
  Frames frames{100};
  frames.add(frame(Kind::told, std::string(200, 'x')).substr(0, 10));
  Kind kind{};
  std::string_view payload;
  EXPECT_FALSE(frames.next(kind, payload));
  EXPECT_TRUE(frames.broken());
}

// Else a carrier whose pipe is full waits for a word about what came with the first answer.
TEST(Link, WhatCameWithTheAnswerIsFollowedByItsAfterwards) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  os::Fd theirs{ends[1]};
  asio::io_context loop{1};
  Attached attached{os::Fd{ends[0]}, piece(1, frame(Kind::told, "one"))};
  const auto link = std::make_shared<Link>(loop.get_executor(), std::move(attached));
  std::string heard;
  auto task = [&]() -> awaitable<void> {
    auto on_frame = [&](Kind, std::string_view payload) { heard += payload; };
    auto after = [&] {
      heard += ".";
      link->close();
    };
    co_await link->run(std::move(on_frame), std::move(after));
  };
  asio::co_spawn(loop, task, [](std::exception_ptr failure) { EXPECT_FALSE(failure); });
  loop.run_for(std::chrono::seconds{10});
  EXPECT_EQ(heard, "one.");
}

}  // namespace
}  // namespace tb::docker
