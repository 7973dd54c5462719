// SPDX-License-Identifier: Apache-2.0
#include "code/written.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace tb::code {
namespace {

std::vector<std::string> read(const std::string& text) {
  return written_files(boost::json::parse(text).as_object());
}

TEST(WrittenFiles, AreBelowTheWorkspace) {
  EXPECT_EQ(read(R"({"files": ["/workspace/a", "/workspace/d/.b c", "/workspace/\u00e9"]})"),
            (std::vector<std::string>{"a", "d/.b c", "\xc3\xa9"}));
  EXPECT_TRUE(read("{}").empty());
  EXPECT_TRUE(read(R"({"files": "/workspace/a"})").empty());
}

TEST(WrittenFiles, LeadNowhereElse) {
  EXPECT_EQ(read(R"({"files": [1, null, ["/workspace/x"], "", "a", "/etc/passwd", "/workspace",
                     "/workspace/", "/workspace/../etc/passwd", "/workspace/a/..", "/workspace/./a",
                     "/workspace//etc", "/workspace/a/", "/workspace/a\u0000b", "/workspace/a\nb",
                     "/workspaces/a", "/workspace/fine"]})"),
            std::vector<std::string>{"fine"});
}

TEST(WrittenFiles, AreFewAndShort) {
  boost::json::array names;
  names.emplace_back("/workspace/" + std::string(2000, 'x'));
  for (int i = 0; i < 100; ++i) names.emplace_back("/workspace/" + std::to_string(i));
  const auto files = written_files({{"files", names}});
  EXPECT_EQ(files.size(), 20u);
  EXPECT_EQ(files[0], "0");
}

}  // namespace
}  // namespace tb::code
