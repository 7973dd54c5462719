// SPDX-License-Identifier: Apache-2.0
#include "audit/credentials.h"

#include <gtest/gtest.h>

namespace tb::audit {
namespace {

const std::string kKey = "tb_3f9c0a51be72_" + std::string(43, 'x');

TEST(Credentials, AreTakenOutOfQueriesAndPaths) {
  EXPECT_EQ(without_credentials("/nope?api_key=1&x=2"), "/nope?api_key=[redacted]&x=2");
  EXPECT_EQ(without_credentials("/nope?Access_Token=abc"), "/nope?Access_Token=[redacted]");
  EXPECT_EQ(without_credentials("/nope?%61pi=abc"), "/nope?%61pi=[redacted]");
  EXPECT_EQ(without_credentials("/" + kKey + "/x"), "/[redacted]/x");
  EXPECT_EQ(without_credentials("/nope?q=" + kKey + "&y"), "/nope?q=[redacted]&y");
  EXPECT_EQ(without_credentials("/nope?" + kKey), "/nope?[redacted]");
  EXPECT_EQ(without_credentials("/x/eyJhbGciOiJub25lIn0.e30."), "/x/[redacted]");
  EXPECT_EQ(without_credentials("/x?a=tbs_abcdefghijklmnop.qrs&b=" + kKey),
            "/x?a=[redacted]&b=[redacted]");
}

TEST(Credentials, OfEverythingElseNothingIsTaken) {
  for (const char* plain : {"/", "/nope", "/nope?", "/nope?a=b&c", "/nope?&&=&", "/tb_short",
                            "/../etc/passwd", "/x?q=1%202", "/a?token=", ""}) {
    EXPECT_EQ(without_credentials(plain), plain);
  }
}

}  // namespace
}  // namespace tb::audit
