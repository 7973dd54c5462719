// SPDX-License-Identifier: Apache-2.0
// Output that is looked at when its process ends, and stored later.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "box/output.h"
#include "box/test_pipe.h"
#include "os/test_dir.h"

namespace tb::box {
namespace {

namespace fs = std::filesystem;

struct Ending {
  os::TestDir dir;
  Output output{dir / "1", limits(1000, 100'000), Earlier::none};
  Pipe out;
  Pipe err;
  Ending() { output.open_pipes(os::duplicate(out.in), os::duplicate(err.in)); }
  void close() {
    out.out.reset();
    err.out.reset();
  }
  std::string all() const { return output.read(Stream::all, 0, 1 << 20); }
  bool stored() const { return fs::exists(dir / "1.out") || fs::exists(dir / "1.err"); }
};

TEST(OutputAtTheEnd, CanBeReadBeforeItIsStored) {
  Ending end;
  end.out.say("printed");
  end.err.say("wrong");
  end.close();
  end.output.drain_soon();
  EXPECT_TRUE(end.output.peeked());
  EXPECT_TRUE(end.output.at_end());
  EXPECT_FALSE(end.stored());
  for (int stored = 0; stored < 2; ++stored) {
    EXPECT_EQ(end.all(), "printedwrong");
    EXPECT_EQ(end.output.captured(Stream::all).text, "printedwrong");
    EXPECT_EQ(end.output.captured(Stream::out).text, "printed");
    EXPECT_EQ(end.output.read(Stream::err, 2, 2), "on");
    EXPECT_EQ(end.output.total(Stream::all), 12u);
    EXPECT_EQ(end.output.next_readable(Stream::out, 3), 3u);
    end.output.drain();
    EXPECT_TRUE(end.output.at_end());
    EXPECT_FALSE(end.output.peeked());
  }
  EXPECT_EQ(os::read_file(end.dir / "1.out"), "printed");
  EXPECT_EQ(os::read_file(end.dir / "1.err"), "wrong");
}

TEST(OutputAtTheEnd, IsInThePipeForTheNextServerUntilItIsStored) {
  Ending end;
  end.out.say("printed");
  end.close();
  end.output.drain_soon();
  Output next{end.dir / "1", limits(1000, 1000)};
  next.open_pipes(os::duplicate(end.out.in), os::duplicate(end.err.in));
  next.drain();
  EXPECT_EQ(next.captured(Stream::out).text, "printed");
  EXPECT_TRUE(next.at_end());
}

TEST(OutputAtTheEnd, GoesOnInItsOrderWhenSomethingInTheBackgroundPrints) {
  Ending end;
  end.out.say("one ");
  end.err.say("two ");
  end.output.drain_soon();
  EXPECT_FALSE(end.output.at_end());
  EXPECT_EQ(end.all(), "one two ");
  end.out.say("three");
  end.output.drain();
  EXPECT_EQ(end.all(), "one two three");
  EXPECT_EQ(os::read_file(end.dir / "1.out"), "one three");
}

TEST(OutputAtTheEnd, TooMuchIsStoredAtOnce) {
  const std::string much(20'000, 'x');
  for (const bool err : {false, true}) {
    Ending end;
    end.out.say(err ? "little" : much);
    end.err.say(err ? much : "little");
    end.close();
    end.output.drain_soon();
    EXPECT_FALSE(end.output.peeked());
    EXPECT_TRUE(end.output.at_end());
    EXPECT_EQ(end.all(), err ? "little" + much : much + "little");
  }
}

TEST(OutputAtTheEnd, BeyondTheLimitIsNotPutOff) {
  os::TestDir dir;
  Output output{dir / "1", limits(100, 4), Earlier::none};
  Pipe out;
  Pipe err;
  output.open_pipes(os::duplicate(out.in), os::duplicate(err.in));
  out.say("printed");
  out.out.reset();
  output.drain_soon();
  EXPECT_FALSE(output.peeked());
  EXPECT_EQ(output.captured(Stream::out).text, "printed");
}

TEST(OutputAtTheEnd, NothingLeavesNoFile) {
  Ending end;
  end.close();
  end.output.drain_soon();
  EXPECT_TRUE(end.output.at_end());
  EXPECT_FALSE(end.output.on_disk());
  EXPECT_FALSE(end.stored());
}

}  // namespace
}  // namespace tb::box
