// SPDX-License-Identifier: Apache-2.0
// Output for who passes much of it on.
#include <fcntl.h>
#include <gtest/gtest.h>

#include "box/output.h"
#include "box/test_pipe.h"
#include "os/test_dir.h"

namespace tb::box {
namespace {

TEST(Output, ManyBytesAreFoundInTheirFileWhichStaysOpenForTheirReader) {
  os::TestDir dir;
  Output output{dir.path() + "/1", OutputLimits{}};
  Pipe out, err;
  output.open_pipes(os::duplicate(out.in), os::duplicate(err.in));
  const std::string text = std::string(50000, 'a') + "the end";
  out.say(text);
  output.drain();
  err.say("few");
  output.drain();
  EXPECT_FALSE(output.find(Stream::err, 0, 1000000));
  EXPECT_FALSE(output.find(Stream::all, text.size(), 1000000));
  EXPECT_FALSE(output.find(Stream::out, text.size(), 1000000));
  const auto part = output.find(Stream::all, 1000, 1000000);
  ASSERT_TRUE(part);
  output.close_files();
  std::string read(part->size, '\0');
  ASSERT_EQ(::pread(part->file, read.data(), read.size(), static_cast<off_t>(part->offset)),
            static_cast<ssize_t>(read.size()));
  EXPECT_EQ(read, text.substr(1000));
  EXPECT_TRUE(output.find(Stream::out, 0, 1000000));  // opened again
}

TEST(Output, WhoPrintsMuchGetsAWiderPipe) {
  os::TestDir dir;
  Output output{dir.path() + "/1", OutputLimits{}};
  Pipe out, err;
  output.open_pipes(os::duplicate(out.in), os::duplicate(err.in));
  const int usual = ::fcntl(out.out.get(), F_GETPIPE_SZ);
  out.say("few");
  output.drain();
  EXPECT_EQ(::fcntl(out.out.get(), F_GETPIPE_SZ), usual);
  out.say(std::string(static_cast<std::size_t>(usual), 'x'));
  output.drain();
  EXPECT_GT(::fcntl(out.out.get(), F_GETPIPE_SZ), usual);
  EXPECT_EQ(::fcntl(err.out.get(), F_GETPIPE_SZ), usual);
}

}  // namespace
}  // namespace tb::box
