// SPDX-License-Identifier: Apache-2.0
// How a request to an S3-compatible bucket is signed: AWS Signature Version 4, in headers.
#pragma once

#include <string>
#include <vector>

#include "http/message.h"

namespace tb::checkpoints {

struct Signer {
  std::string region;
  std::string key_id;
  std::string secret;
};

struct Signed {
  std::string method;
  std::string host;   // as the Host header has it
  std::string path;   // encoded
  std::string query;  // encoded, its names in their order
  std::string_view body;
  std::string time;  // 20130524T000000Z
};

// The headers to add: x-amz-date, x-amz-content-sha256 and Authorization.
std::vector<http::Header> sign(const Signer& signer, const Signed& request);

// As a path of S3 has it (slashes stay), or a value of a query.
std::string encode_uri(std::string_view text, bool keep_slashes);

}  // namespace tb::checkpoints
