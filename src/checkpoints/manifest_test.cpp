// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/manifest.h"

#include <gtest/gtest.h>

namespace tb::checkpoints {
namespace {

TEST(Manifest, ComesBackAsItWas) {
  Manifest manifest;
  manifest.kept_at += std::chrono::milliseconds{1763230000123};
  manifest.layers = {{7, 2, 9000, ""}, {8, 1, 3, "a/b"}};
  manifest.removed = {"gone", std::string{"not\xff utf-8"}};
  const auto again = from_text(to_text(manifest));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->kept_at, manifest.kept_at);
  EXPECT_EQ(again->removed, manifest.removed);
  ASSERT_EQ(again->layers.size(), 2u);
  EXPECT_EQ(again->layers[0].parts, 2u);
  EXPECT_EQ(again->layers[1].place, "a/b");
}

TEST(Manifest, IsNoneWhenAnythingOfItIsNot) {
  for (const char* text :
       {"", "{}", "[]", R"({"version":2,"layers":[],"removed":[]})",
        R"({"version":1,"layers":{},"removed":[]})", R"({"version":1,"layers":[1],"removed":[]})",
        R"({"version":1,"layers":[],"removed":["***"]})"}) {
    EXPECT_FALSE(from_text(text)) << text;
  }
}

TEST(Manifest, KeysOfALaterClaimComeLater) {
  EXPECT_LT(generation_prefix("t", 9), generation_prefix("t", 1763230000000));
  EXPECT_LT(manifest_name(9), manifest_name(10));
  EXPECT_EQ(generation_of(generation_prefix("t", 12) + "/" + manifest_name(1)), 12u);
  EXPECT_FALSE(generation_of("t"));
  EXPECT_FALSE(generation_of("t/12x/1"));
  EXPECT_NE(thread_prefix("a"), thread_prefix("b"));
}

}  // namespace
}  // namespace tb::checkpoints
