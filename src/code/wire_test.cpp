// SPDX-License-Identifier: Apache-2.0
#include "code/wire.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include "code/execution.h"

namespace tb::code {
namespace {

Frame make(Frame::Kind kind, std::uint32_t call, std::string data) {
  Frame frame;
  frame.kind = kind;
  frame.call = call;
  frame.data = std::move(data);
  return frame;
}

TEST(Frames, ComeWholeHoweverTheirBytesArrive) {
  const std::string bytes = encode_frame(make(Frame::Kind::out, 7, "hello")) +
                            encode_frame(make(Frame::Kind::end, 7, std::string(40000, 'x')));
  for (const std::size_t step : {std::size_t{1}, std::size_t{10}, bytes.size()}) {
    Frames frames;
    std::vector<Frame> seen;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      frames.add(std::string_view{bytes}.substr(at, step));
      while (auto frame = frames.next()) seen.push_back(std::move(*frame));
    }
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen[0].kind, Frame::Kind::out);
    EXPECT_EQ(seen[0].call, 7u);
    EXPECT_EQ(seen[0].data, "hello");
    EXPECT_EQ(seen[1].data.size(), 40000u);
  }
}

TEST(Frames, KeepNothingOfWhatWasTaken) {
  const std::string frame = encode_frame(make(Frame::Kind::out, 1, std::string(60000, 'x')));
  const std::string shifted = frame.substr(5) + frame.substr(0, 5);  // never all of it is taken
  Frames frames;
  frames.add(frame.substr(0, 5));
  const auto held = [] { return ::mallinfo2().uordblks + ::mallinfo2().hblkhd; };
  const std::size_t before = held();
  for (int i = 0; i < 500; ++i) {
    frames.add(shifted);
    ASSERT_TRUE(frames.next());
  }
  EXPECT_LT(held(), before + (4u << 20));
}

TEST(Frames, RefuseWhatIsNone) {
  std::string large = encode_frame(make(Frame::Kind::out, 1, ""));
  large[9] = '\x7f';  // of its size
  for (const std::string& bytes : {std::string{"no frame"}, std::string{"T!"},
                                   "TB?" + std::string(8, '\0'), large, std::string{"\0", 1}}) {
    Frames frames;
    frames.add(bytes);
    EXPECT_THROW(frames.next(), Broken) << bytes;
  }
  Frames half;
  half.add("T");
  EXPECT_FALSE(half.next());
}

TEST(Frames, FindOneBehindWhateverCameBefore) {
  const std::string wanted = encode_frame(make(Frame::Kind::synced, 3, "mark and more"));
  const std::string before = "junk" + encode_frame(make(Frame::Kind::out, 2, "old")).substr(5);
  Frames frames;
  for (const char c : before + std::string(100000, 'z') + wanted) {
    frames.add({&c, 1});
    if (const auto found = frames.find("mark")) {
      EXPECT_EQ(found->data, "mark and more");
      frames.add(encode_frame(make(Frame::Kind::out, 4, "new")));
      EXPECT_EQ(frames.next()->data, "new");
      return;
    }
  }
  FAIL() << "it was not found";
}

TEST(Frames, FindWaitsForTheRestOfWhatItFound) {
  const std::string wanted = encode_frame(make(Frame::Kind::synced, 3, "mark, and the rest"));
  Frames frames;
  frames.add(std::string_view{wanted}.substr(0, 18));
  EXPECT_FALSE(frames.find("mark"));
  frames.add(std::string_view{wanted}.substr(18));
  EXPECT_EQ(frames.find("mark")->data, "mark, and the rest");
}

TEST(Requests, HaveTheirLengthAndTheirFields) {
  using namespace std::string_literals;
  EXPECT_EQ(encode_request({"ab", ""}), "\x0a\0\0\0\x02\0\0\0ab\0\0\0\0"s);
  EXPECT_EQ(encode_request({}), "\0\0\0\0"s);
}

TEST(WholeCharacters, EndBetweenCharacters) {
  const std::string text = "aé€😀z";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    WholeCharacters characters;
    const std::string first = characters.add(text.substr(0, cut));
    const std::string second = characters.add(text.substr(cut));
    EXPECT_EQ(first + second, text);
    EXPECT_TRUE(first.empty() || (static_cast<unsigned char>(second[0]) & 0xc0) != 0x80 ||
                second.empty());
  }
  WholeCharacters broken;
  EXPECT_EQ(broken.add("\xff\xe2\x82"), "\xff");
  EXPECT_EQ(broken.rest(), "\xe2\x82");
  EXPECT_EQ(broken.rest(), "");
}

TEST(Languages, AreKnownByTheirNamesAndListedWhenTheyAreNot) {
  EXPECT_EQ(language_named("python"), Language::python);
  EXPECT_EQ(language_named("js"), Language::javascript);
  EXPECT_EQ(language_named("sh"), Language::bash);
  try {
    language_named("cobol");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    EXPECT_STREQ(error.what(), "Unknown language: cobol; known are python, javascript, bash");
  }
}

TEST(Languages, AnInterpreterIsFoundByItsTag) {
  sandbox::ProcessInfo info;
  info.tag = interpreter(Language::python).tag;
  EXPECT_EQ(find_interpreter(info), Language::python);
  info.tag = "mine";
  EXPECT_EQ(find_interpreter(info), std::nullopt);
}

}  // namespace
}  // namespace tb::code
