// SPDX-License-Identifier: Apache-2.0
#include "guest/tar.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tb::guest::tar {
namespace {

// Hands out a text in pieces.
Source pieces(const std::string& text, std::size_t piece) {
  return [text, piece, at = std::size_t{0}](char* to, std::size_t size) mutable {
    const std::size_t got = std::min({size, piece, text.size() - at});
    std::memcpy(to, text.data() + at, got);
    at += got;
    return static_cast<ssize_t>(got);
  };
}

Entry file(const std::string& path, std::uint64_t size) {
  Entry entry;
  entry.path = path;
  entry.size = size;
  entry.modified = 1234567890;
  return entry;
}

std::string packed(const std::string& path, const std::string& content) {
  return make_header(file(path, content.size())) + content +
         std::string(padding_of(content.size()), '\0');
}

const std::string kEnd(2 * kBlock, '\0');

std::string content_of(Reader& reader) {
  std::string content;
  char buffer[100];
  while (const ssize_t got = reader.read(buffer, sizeof buffer)) {
    if (got < 0) return "cut";
    content.append(buffer, static_cast<std::size_t>(got));
  }
  return content;
}

TEST(Tar, ReadsWhatItWrote) {
  const std::string longest = std::string(200, 'd') + "/" + std::string(255, 'f');
  Entry link = file("l", 0);
  link.kind = Entry::Kind::link;
  link.target = std::string(300, 't');
  Entry directory = file("d", 0);
  directory.kind = Entry::Kind::directory;
  directory.mode = 0750;
  const std::string text = packed("a", "hello") + packed(longest, std::string(1000, 'x')) +
                           make_header(link) + make_header(directory) + packed("z", "") + kEnd;
  for (const std::size_t piece : {1ul, 7ul, 512ul, 100000ul}) {
    Reader reader{pieces(text, piece)};
    Entry entry;
    ASSERT_EQ(reader.next(entry), Reader::Result::entry);
    EXPECT_EQ(entry.path, "a");
    EXPECT_EQ(entry.modified, 1234567890);
    EXPECT_EQ(content_of(reader), "hello");
    ASSERT_EQ(reader.next(entry), Reader::Result::entry);
    EXPECT_EQ(entry.path, longest);
    // Not read: the next entry is found all the same.
    ASSERT_EQ(reader.next(entry), Reader::Result::entry);
    EXPECT_EQ(entry.kind, Entry::Kind::link);
    EXPECT_EQ(entry.target, link.target);
    ASSERT_EQ(reader.next(entry), Reader::Result::entry);
    EXPECT_EQ(entry.kind, Entry::Kind::directory);
    EXPECT_EQ(entry.mode, 0750u);
    ASSERT_EQ(reader.next(entry), Reader::Result::entry);
    EXPECT_EQ(content_of(reader), "");
    EXPECT_EQ(reader.next(entry), Reader::Result::end);
  }
}

std::string problem_of(const std::string& text) {
  Reader reader{pieces(text, 4096)};
  Entry entry;
  for (;;) {
    const Reader::Result result = reader.next(entry);
    if (result == Reader::Result::bad) return reader.problem();
    if (result == Reader::Result::end) return "";
  }
}

TEST(Tar, PathsThatLeadOutAreRefused) {
  EXPECT_NE(problem_of(packed("/etc/x", "") + kEnd).find("absolute"), std::string::npos);
  EXPECT_NE(problem_of(packed("../x", "") + kEnd).find(".."), std::string::npos);
  EXPECT_NE(problem_of(packed("a/../x", "") + kEnd).find(".."), std::string::npos);
  EXPECT_NE(problem_of(packed(std::string(300, 'x'), "") + kEnd).find("too long"),
            std::string::npos);
  EXPECT_EQ(problem_of(packed("./a//b/./c", "") + kEnd), "");
}

TEST(Tar, EveryCutIsSeen) {
  const std::string whole = packed(std::string(150, 'n'), std::string(700, 'x'));
  for (std::size_t size = 1; size < whole.size(); ++size) {
    EXPECT_NE(problem_of(whole.substr(0, size)), "") << size;
  }
  EXPECT_EQ(problem_of(whole), "");  // the end may be missing, as some programs write it
}

TEST(Tar, EveryChangedByteOfAHeaderIsSeen) {
  const std::string whole = packed("name", "content") + kEnd;
  constexpr std::size_t kBehindSum = 155;  // a space that nobody looks at
  for (std::size_t at = 0; at < kBlock; ++at) {
    if (at == kBehindSum) continue;
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ 0x41);
    EXPECT_NE(problem_of(broken), "") << at;
  }
}

}  // namespace
}  // namespace tb::guest::tar
