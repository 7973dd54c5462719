// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/signing.h"

#include <gtest/gtest.h>

namespace tb::checkpoints {
namespace {

// The second example of "Signature Calculations for the Authorization Header", with the headers
// that we sign: the query is the interesting part there.
TEST(Signing, IsWhatAmazonsDocumentsCompute) {
  const Signer signer{"us-east-1", "AKIAIOSFODNN7EXAMPLE",
                      "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};
  Signed request;
  request.method = "GET";
  request.host = "examplebucket.s3.amazonaws.com";
  request.path = "/";
  request.query = "max-keys=2&prefix=J";
  request.time = "20130524T000000Z";
  const auto headers = sign(signer, request);
  ASSERT_EQ(headers.size(), 3u);
  EXPECT_NE(headers[2].value.find(
                "Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
            std::string::npos)
      << headers[2].value;
}

TEST(Signing, EncodesAllButWhatIsPlain) {
  EXPECT_EQ(encode_uri("a b/c+d~", true), "a%20b/c%2Bd~");
  EXPECT_EQ(encode_uri("a/b", false), "a%2Fb");
}

}  // namespace
}  // namespace tb::checkpoints
