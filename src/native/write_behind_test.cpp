// SPDX-License-Identifier: Apache-2.0
#include "native/write_behind.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/test_loop.h"
#include "os/test_dir.h"

namespace tb::native {
namespace {

os::Fd open_new(const std::string& path) {
  return os::Fd{check(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600), "open")};
}

// Ends before the loop that it tells, which has heard all of it by then.
struct Disk {
  Disk(TestLoop& told, unsigned threads) : loop(told), pool(threads) {}
  ~Disk() {
    pool.join();
    loop.settle();
  }
  TestLoop& loop;
  asio::thread_pool pool;
};

// What it says at last.
awaitable<int> write_pieces(WriteBehind& writer, std::string_view text, std::size_t piece) {
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const std::string passing{text.substr(at, piece)};  // gone when it is written
    const int failed = co_await writer.write(passing);
    if (failed != 0) co_return failed;
  }
  co_return co_await writer.flush();
}

TEST(WriteBehind, WritesEverythingInItsOrder) {
  const os::TestDir dir;
  std::string text;
  for (int i = 0; text.size() < 5'000'000; ++i) text += std::to_string(i) + ' ';
  TestLoop loop;
  Disk disk{loop, 2};
  for (const std::size_t piece : {std::size_t{7001}, std::size_t{300000}, text.size()}) {
    const std::string path = dir / std::to_string(piece);
    WriteBehind writer{loop.executor(), disk.pool, open_new(path)};
    EXPECT_EQ(loop.run(write_pieces(writer, text, piece)), 0);
    EXPECT_TRUE(os::read_file(path, text.size() + 1) == text) << piece;
  }
}

TEST(WriteBehind, TellsWhatFailedAtTheLatestAtItsEnd) {
  TestLoop loop;
  Disk disk{loop, 2};
  const std::string text(3'000'000, 'x');
  for (const std::size_t piece : {std::size_t{1000}, text.size()}) {
    os::Fd full{check(::open("/dev/full", O_WRONLY | O_CLOEXEC), "open")};
    WriteBehind writer{loop.executor(), disk.pool, std::move(full)};
    EXPECT_EQ(loop.run(write_pieces(writer, text, piece)), ENOSPC) << piece;
    EXPECT_EQ(loop.run(writer.write("more")), ENOSPC);
  }
}

TEST(WriteBehind, DroppedItLeavesTheRestToThePool) {
  const os::TestDir dir;
  const std::string text(400'000, 'x');
  TestLoop loop;
  Disk disk{loop, 1};
  {
    WriteBehind writer{loop.executor(), disk.pool, open_new(dir / "file")};
    EXPECT_EQ(loop.run(writer.write(text)), 0);
  }
  disk.pool.join();
  loop.settle();
  EXPECT_EQ(os::read_file(dir / "file").size(), text.size());
}

}  // namespace
}  // namespace tb::native
