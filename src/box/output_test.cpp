// SPDX-License-Identifier: Apache-2.0
#include "box/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "base/codec.h"
#include "box/test_pipe.h"
#include "os/test_dir.h"

namespace tb::box {
namespace {

namespace fs = std::filesystem;

std::string letters(std::size_t count) {
  std::string text(count, 'a');
  for (std::size_t i = 0; i < count; ++i) text[i] = static_cast<char>('a' + i % 26);
  return text;
}

std::string gap(std::uint64_t bytes) {
  return "\n[... " + std::to_string(bytes) + " bytes left out ...]\n";
}

// All that came through one stream of these limits.
struct OneStream {
  os::TestDir dir;
  StreamFile file;
  Pipe pipe;
  explicit OneStream(OutputLimits sizes) : file(dir / "1.out", sizes, Earlier::none) {
    file.open_pipe(os::duplicate(pipe.in));
  }
  void say(std::string_view text) {
    while (!text.empty()) {  // no more than a pipe holds
      const std::string_view piece = text.substr(0, 4096);
      pipe.say(piece);
      EXPECT_EQ(file.drain(), piece.size());
      text.remove_prefix(piece.size());
    }
  }
  bool stored() const { return fs::exists(dir / "1.out"); }
};

TEST(StreamFile, MovesThePipeIntoTheFile) {
  OneStream stream{limits(100, 1000)};
  stream.say("hello ");
  stream.say("world");
  EXPECT_FALSE(stream.file.at_end());
  EXPECT_EQ(stream.file.total(), 11u);
  EXPECT_EQ(stream.file.stored(), 11u);
  EXPECT_EQ(stream.file.captured().text, "hello world");
  EXPECT_FALSE(stream.file.captured().truncated);
  EXPECT_EQ(os::read_file(stream.dir / "1.out"), "hello world");
}

TEST(StreamFile, ReadsToTheEndOfThePipe) {
  OneStream stream{limits(100, 1000)};
  stream.pipe.say("last words");
  stream.pipe.out.reset();
  EXPECT_EQ(stream.file.drain(), 10u);
  EXPECT_TRUE(stream.file.at_end());
  EXPECT_EQ(stream.file.drain(), 0u);
  EXPECT_EQ(stream.file.captured().text, "last words");
}

TEST(StreamFile, TheFirstOneTakesTheSpareFile) {
  OneStream first{limits(100, 1000)};
  os::replace_file(spare_file(first.dir.path()), "", 0600);
  first.say("hello");
  EXPECT_FALSE(fs::exists(spare_file(first.dir.path())));
  EXPECT_EQ(os::read_file(first.dir / "1.out"), "hello");
}

TEST(StreamFile, NothingPrintedMakesNoFile) {
  OneStream stream{limits(100, 1000)};
  EXPECT_EQ(stream.file.drain(), 0u);
  EXPECT_FALSE(stream.file.at_end());
  stream.pipe.out.reset();
  EXPECT_EQ(stream.file.drain(), 0u);
  EXPECT_TRUE(stream.file.at_end());
  EXPECT_FALSE(stream.stored());
  EXPECT_EQ(stream.file.captured().text, "");
  EXPECT_EQ(stream.file.captured().total, 0u);
  EXPECT_EQ(stream.file.read(0, 100), "");
}

TEST(StreamFile, ShowsHeadAndTailOfWhatIsTooLongForAnAnswer) {
  for (std::size_t count = 0; count <= 40; ++count) {
    OneStream stream{limits(10, 1000)};
    const std::string text = letters(count);
    stream.say(text);
    const Captured captured = stream.file.captured();
    EXPECT_EQ(captured.total, count);
    EXPECT_EQ(captured.truncated, count > 10);
    EXPECT_EQ(captured.text,
              count <= 10 ? text : text.substr(0, 5) + gap(count - 10) + text.substr(count - 5))
        << count;
    EXPECT_EQ(stream.file.read(0, 1000), text);
  }
}

TEST(StreamFile, OffsetsMeanTheSameToTheNextServer) {
  OneStream stream{limits(100, 10)};
  stream.say(letters(30));
  EXPECT_EQ(stream.file.read(25, 100), letters(30).substr(25));
  StreamFile next{stream.dir / "1.out", limits(100, 10), Earlier::possible};
  EXPECT_EQ(next.total(), 30u);
  EXPECT_EQ(next.stored(), 10u);
  EXPECT_EQ(next.next_readable(3), 3u);
  EXPECT_EQ(next.next_readable(12), 30u);
  Pipe pipe;
  next.open_pipe(os::duplicate(pipe.in));
  pipe.say("more");
  EXPECT_EQ(next.drain(), 4u);
  EXPECT_EQ(next.read(30, 100), "more");
}

TEST(StreamFile, BeyondTheStoredLimitOnlyTheTailIsKept) {
  for (std::size_t count = 9; count <= 60; ++count) {
    for (const std::size_t piece : {1u, 3u, 7u, 60u}) {
      OneStream stream{limits(6, 8)};
      const std::string text = letters(count);
      for (std::size_t at = 0; at < count; at += piece) stream.say(text.substr(at, piece));
      const Captured captured = stream.file.captured();
      EXPECT_EQ(captured.total, count);
      EXPECT_EQ(stream.file.stored(), 8u);
      EXPECT_TRUE(captured.truncated);
      EXPECT_EQ(captured.text, text.substr(0, 3) + gap(count - 6) + text.substr(count - 3))
          << count << " in pieces of " << piece;
      EXPECT_EQ(stream.file.read(0, 1000), text.substr(0, 8));
      EXPECT_EQ(fs::file_size(stream.dir / "1.out"), 8u);
    }
  }
}

TEST(StreamFile, TheTailBeginsInTheFileWhenLittleCameAfterIt) {
  OneStream stream{limits(8, 8)};
  stream.say(letters(10));
  EXPECT_EQ(stream.file.captured().text, "abcd" + gap(2) + "ghij");
}

// With less stored than an answer holds, nothing is missing at first.
TEST(StreamFile, AGapIsOnlyToldWhenSomethingIsMissing) {
  OneStream stream{limits(100, 10)};
  stream.say(letters(12));
  EXPECT_EQ(stream.file.captured().total, 12u);
  EXPECT_EQ(stream.file.captured().text, letters(12));
  EXPECT_FALSE(stream.file.captured().truncated);
}

TEST(StreamFile, LargeOutputIsExact) {
  OneStream stream{limits(1 << 10, 300 << 10)};
  const std::string text = letters(1 << 20);
  stream.say(text);
  const Captured captured = stream.file.captured();
  EXPECT_EQ(captured.total, text.size());
  EXPECT_EQ(captured.text,
            text.substr(0, 512) + gap(text.size() - 1024) + text.substr(text.size() - 512));
  EXPECT_EQ(stream.file.read(299 << 10, 1 << 20), text.substr(299 << 10, 1 << 10));
}

TEST(StreamFile, PagesByOffsetAreTheWhole) {
  OneStream stream{limits(10, 1000)};
  const std::string text = letters(777);
  stream.say(text);
  for (const std::size_t page : {1u, 7u, 100u, 776u, 777u, 5000u}) {
    std::string all;
    for (std::string piece; !(piece = stream.file.read(all.size(), page)).empty(); all += piece) {
      EXPECT_LE(piece.size(), page);
    }
    EXPECT_EQ(all, text) << page;
  }
  EXPECT_EQ(stream.file.read(777, 10), "");
  EXPECT_EQ(stream.file.read(~0ull, 10), "");
  EXPECT_EQ(stream.file.read(5, 0), "");
}

TEST(StreamFile, ANewServerGoesOnWhereTheOldOneStopped) {
  OneStream stream{limits(100, 1000)};
  stream.say("first ");
  stream.pipe.say("between ");
  StreamFile next{stream.dir / "1.out", limits(100, 1000), Earlier::possible};
  EXPECT_EQ(next.total(), 6u);
  EXPECT_TRUE(next.at_end());
  EXPECT_EQ(next.captured().text, "first ");
  next.open_pipe(os::duplicate(stream.pipe.in));
  EXPECT_FALSE(next.at_end());
  next.drain();
  stream.pipe.say("last");
  next.drain();
  EXPECT_EQ(next.captured().text, "first between last");
}

// Both streams of a process, and the pipes that it writes to.
struct Both {
  os::TestDir dir;
  OutputLimits sizes;
  Pipe out;
  Pipe err;
  std::unique_ptr<Output> output;

  explicit Both(OutputLimits limits_of_each) : sizes(limits_of_each) { resume(); }
  // As a new server would.
  void resume() {
    output = std::make_unique<Output>(dir / "1", sizes);
    output->open_pipes(os::duplicate(out.in), os::duplicate(err.in));
  }
  void say(std::string_view text, bool to_err) {
    (to_err ? err : out).say(text);
    output->drain();
  }
  std::string all() const { return output->read(Stream::all, 0, 1 << 20); }
};

TEST(Output, KeepsTheOrderOfArrival) {
  Both both{limits(100, 1000)};
  both.say("a", false);
  both.say("B", true);
  both.say("C", true);
  both.say("d", false);
  EXPECT_EQ(both.all(), "aBCd");
  EXPECT_EQ(both.output->captured(Stream::all).text, "aBCd");
  EXPECT_EQ(both.output->captured(Stream::out).text, "ad");
  EXPECT_EQ(both.output->captured(Stream::err).text, "BC");
  EXPECT_EQ(both.output->total(Stream::all), 4u);
  EXPECT_EQ(both.output->total(Stream::out), 2u);
  EXPECT_EQ(both.output->total(Stream::err), 2u);
}

TEST(Output, OutComesBeforeErrWhenBothArrivedTogether) {
  Both both{limits(100, 1000)};
  both.err.say("E");
  both.out.say("o");
  both.output->drain();
  EXPECT_EQ(both.all(), "oE");
}

TEST(Output, EndsWhenBothPipesHave) {
  Both both{limits(100, 1000)};
  both.out.out.reset();
  both.output->drain();
  EXPECT_FALSE(both.output->at_end());
  both.err.out.reset();
  both.output->drain();
  EXPECT_TRUE(both.output->at_end());
  EXPECT_TRUE(fs::is_empty(both.dir.path()));
}

TEST(Output, OneStreamAloneNeedsOneFile) {
  Both both{limits(100, 1000)};
  for (int i = 0; i < 10; ++i) both.say("x", true);
  EXPECT_EQ(std::distance(fs::directory_iterator{both.dir.path()}, {}), 1);
  both.resume();
  EXPECT_EQ(both.output->captured(Stream::all).text, "xxxxxxxxxx");
}

TEST(Output, AllShowsHeadAndTailInOrder) {
  Both both{limits(8, 1000)};
  for (int i = 0; i < 10; ++i) {
    both.say(std::string(1, static_cast<char>('a' + i)), false);
    both.say(std::string(1, static_cast<char>('A' + i)), true);
  }
  const Captured captured = both.output->captured(Stream::all);
  EXPECT_EQ(captured.text, "aAbB" + gap(12) + "iIjJ");
  EXPECT_TRUE(captured.truncated);
  EXPECT_EQ(captured.total, 20u);
}

TEST(Output, AllEndsWithTheNewestBytesEvenBeyondTheStoredLimit) {
  Both both{limits(6, 8)};
  both.say("ERR", true);
  both.say(letters(20), false);
  const Captured captured = both.output->captured(Stream::all);
  EXPECT_EQ(captured.total, 23u);
  EXPECT_TRUE(captured.truncated);
  EXPECT_EQ(captured.text, "ERR" + gap(17) + "rst");
}

TEST(Output, RemovesItsFiles) {
  Both both{limits(8, 1000)};
  both.say("a", false);
  both.say("b", true);
  EXPECT_FALSE(fs::is_empty(both.dir.path()));
  Output::remove_files(both.dir / "1");
  EXPECT_TRUE(fs::is_empty(both.dir.path()));
}

TEST(Output, AnOrderThatLagsBehindLosesNoByte) {
  Both both{limits(100, 1000)};
  both.say("a", false);
  both.say("B", true);
  fs::remove(both.dir / "1.order");
  both.resume();
  EXPECT_EQ(both.all(), "aB");
  os::replace_file(both.dir / "1.order", "damaged", 0600);
  both.resume();
  EXPECT_EQ(both.all(), "aB");
}

// After a crash of the machine the order may know more than the files have.
TEST(Output, AnOrderThatIsAheadLosesNoByteEither) {
  Both both{limits(100, 1000)};
  both.say("ab", false);
  both.say("C", true);
  both.say("de", false);
  both.say("F", true);
  fs::resize_file(both.dir / "1.out", 3);
  both.resume();
  EXPECT_EQ(both.output->total(Stream::all), 5u);
  EXPECT_EQ(both.all().size(), 5u) << both.all();
  EXPECT_EQ(both.all().substr(0, 3), "abC");
}

// As many pieces as are remembered; then more, on both streams.
TEST(Output, NoByteIsLostWhenTheOrderIsToldMoreCoarsely) {
  Both both{limits(100, 1 << 20)};
  constexpr int kRemembered = 100000;
  Writer order;
  for (int i = 0; i < kRemembered; ++i) {
    order.u64(1);
    order.u8(i % 2);
  }
  os::replace_file(both.dir / "1.order", order.view(), 0600);
  os::replace_file(both.dir / "1.out", std::string(kRemembered / 2, 'o'), 0600);
  os::replace_file(both.dir / "1.err", std::string(kRemembered / 2, 'e'), 0600);
  both.resume();
  both.say("more out", false);
  both.say("more err", true);
  const std::string all = both.all();
  EXPECT_EQ(all.size(), both.output->total(Stream::all));
  EXPECT_NE(all.find("more out"), std::string::npos);
  EXPECT_NE(all.find("more err"), std::string::npos);
}

TEST(Output, RandomInterleavingsAreKeptWhateverTheServerDoes) {
  std::mt19937 random{5};
  for (int round = 0; round < 100; ++round) {
    Both both{limits(64, 1 << 20)};
    std::string all;
    std::string each[2];
    for (int step = 0; step < 30; ++step) {
      const bool to_err = random() % 2 == 0;
      const std::string text = letters(1 + random() % 50);
      both.say(text, to_err);
      all += text;
      each[to_err] += text;
      if (random() % 10 == 0) both.resume();
    }
    EXPECT_EQ(both.all(), all);
    EXPECT_EQ(both.output->read(Stream::out, 0, 1 << 20), each[0]);
    EXPECT_EQ(both.output->read(Stream::err, 0, 1 << 20), each[1]);
    const std::size_t offset = random() % all.size();
    const std::size_t page = 1 + random() % 100;
    EXPECT_EQ(both.output->read(Stream::all, offset, page), all.substr(offset, page));
    EXPECT_EQ(both.output->captured(Stream::all).total, all.size());
  }
}

TEST(Output, WhatIsToldTwiceIsKeptOnce) {
  os::TestDir dir;
  Output output{dir / "1", limits(1 << 20, 1 << 20)};
  output.open_told(false);
  output.append(Stream::out, 0, "hello ");
  output.append(Stream::err, 0, "oops");
  output.append(Stream::out, 3, "lo wor");  // a carrier was lost, and the next begins earlier
  output.append(Stream::out, 9, "ld");
  EXPECT_EQ(output.read(Stream::out, 0, 100), "hello world");
  EXPECT_EQ(output.read(Stream::err, 0, 100), "oops");
  EXPECT_EQ(output.read(Stream::all, 0, 100), "hello oopsworld");
  EXPECT_EQ(output.total(Stream::out), 11u);
}

TEST(Output, WhatIsToldBeyondTheLimitKeepsItsOffsets) {
  os::TestDir dir;
  Output output{dir / "1", limits(100, 8)};
  output.open_told(false);
  output.append(Stream::out, 0, "0123456789");
  output.append(Stream::out, 10, "abc");
  EXPECT_EQ(output.total(Stream::out), 13u);
  EXPECT_EQ(output.read(Stream::out, 0, 100), "01234567");
  EXPECT_EQ(output.read(Stream::out, 8, 100), "89abc");
  const Output again{dir / "1", limits(100, 8)};
  EXPECT_EQ(again.total(Stream::out), 13u);
}

}  // namespace
}  // namespace tb::box
