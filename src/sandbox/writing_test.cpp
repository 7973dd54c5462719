// SPDX-License-Identifier: Apache-2.0
#include "sandbox/writing.h"

#include <gtest/gtest.h>

#include "base/test_loop.h"
#include "sandbox/fake_files.h"
#include "sandbox/lines.h"

namespace tb::sandbox {
namespace {

class Writing : public testing::Test {
 protected:
  Edited edit(const std::string& from, const std::string& to, bool all = false) {
    return loop_.run(edit_file(files_, "f", Edit{from, to, all}, limits_));
  }
  template <class Call>
  FileProblem problem(Call call) {
    try {
      call();
    } catch (const FileError& error) {
      return error.problem();
    }
    ADD_FAILURE() << "nothing was refused";
    return {};
  }
  Lines lines(const std::string& text, LineRange range) {
    files_.content["f"] = text;
    return loop_.run(open_and_read(files_, range));
  }
  static awaitable<Lines> open_and_read(FakeFiles& files, LineRange range) {
    const std::unique_ptr<OpenFile> file = co_await files.open("f");
    co_return co_await read_lines(*file, range);
  }

  TestLoop loop_;
  FakeFiles files_;
  FileLimits limits_;
};

TEST_F(Writing, AnEditReplacesTheOnlyMatch) {
  files_.content["f"] = "one\ntwo\nthree\n";
  const Edited edited = edit("two", "2");
  EXPECT_EQ(files_.content["f"], "one\n2\nthree\n");
  EXPECT_EQ(edited.replaced, 1u);
  EXPECT_EQ(edited.lines, std::vector<std::uint64_t>{2});
}

TEST_F(Writing, AnEditThatIsNotClearTellsTheLines) {
  files_.content["f"] = "a\nb\na\n";
  try {
    edit("a", "c");
    FAIL();
  } catch (const EditError& error) {
    EXPECT_EQ(error.problem(), FileProblem::ambiguous);
    EXPECT_EQ(error.matches, 2u);
    EXPECT_EQ(error.lines, (std::vector<std::uint64_t>{1, 3}));
  }
  EXPECT_EQ(problem([&] { edit("x", "c"); }), FileProblem::no_match);
  EXPECT_EQ(files_.content["f"], "a\nb\na\n");
}

TEST_F(Writing, MatchesDoNotOverlap) {
  files_.content["f"] = "aaaaa";
  EXPECT_EQ(edit("aa", "b", true).replaced, 2u);
  EXPECT_EQ(files_.content["f"], "bba");
}

TEST_F(Writing, AnEditStaysWithinTheLimits) {
  files_.content["f"] = std::string(100, 'a');
  limits_.file = Bytes{1000};
  EXPECT_EQ(problem([&] { edit("a", std::string(11, 'b'), true); }), FileProblem::too_large);
  limits_.file = 1_MiB;
  limits_.workspace = Bytes{500};
  EXPECT_EQ(problem([&] { edit("a", std::string(11, 'b'), true); }), FileProblem::full);
  EXPECT_EQ(edit("a", "", true).replaced, 100u);
  EXPECT_EQ(files_.content["f"], "");
}

TEST_F(Writing, AFileIsHeldToTheLimitsWhileItComes) {
  limits_.file = Bytes{10};
  LimitedFile file{limits_};
  loop_.run(file.begin(files_, Bytes{}));
  loop_.run(file.write("0123456789"));
  EXPECT_EQ(problem([&] { loop_.run(file.write("x")); }), FileProblem::too_large);
  LimitedFile known{limits_};
  EXPECT_EQ(problem([&] { loop_.run(known.begin(files_, Bytes{11})); }), FileProblem::too_large);
  limits_.count = 0;
  LimitedFile many{limits_};
  EXPECT_EQ(problem([&] { loop_.run(many.begin(files_, Bytes{})); }), FileProblem::too_many);
  EXPECT_TRUE(files_.content.empty());
}

TEST_F(Writing, LinesAreCountedFromOne) {
  const Lines some = lines("a\nb\nc", {.first = 2, .count = 1});
  EXPECT_EQ(some.text, "b\n");
  EXPECT_EQ(some.count, 1u);
  EXPECT_TRUE(some.more);
  EXPECT_EQ(some.total, 3u);
  const Lines last = lines("a\nb\nc", {.first = 3, .count = 5});
  EXPECT_EQ(last.text, "c");
  EXPECT_EQ(last.count, 1u);
  EXPECT_FALSE(last.more);
  EXPECT_EQ(lines("", {}).total, 0u);
  EXPECT_EQ(lines("\n", {}).total, 1u);
}

TEST_F(Writing, OnlyWholeLinesComeUnlessOneIsTooLong) {
  const Lines some = lines("aaaa\nbbbb\ncccc\n", {.most = Bytes{12}});
  EXPECT_EQ(some.text, "aaaa\nbbbb\n");
  EXPECT_EQ(some.count, 2u);
  EXPECT_TRUE(some.more);
  EXPECT_FALSE(some.cut);
  const Lines cut = lines(std::string(100, 'x') + "\ny\n", {.most = Bytes{12}});
  EXPECT_EQ(cut.text, std::string(12, 'x'));
  EXPECT_EQ(cut.count, 1u);
  EXPECT_TRUE(cut.cut);
  EXPECT_TRUE(cut.more);
}

}  // namespace
}  // namespace tb::sandbox
