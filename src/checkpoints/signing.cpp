// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/signing.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/error.h"
#include "base/hex.h"
#include "base/sha256.h"

namespace tb::checkpoints {
namespace {

std::string digest(std::string_view text) {
  std::string bytes(32, '\0');
  unsigned size = 0;
  TB_ASSERT(::EVP_Digest(text.data(), text.size(), reinterpret_cast<unsigned char*>(bytes.data()),
                         &size, ::EVP_sha256(), nullptr) == 1);
  return to_hex(bytes);
}

std::string hmac(std::string_view key, std::string_view text) {
  std::string bytes(32, '\0');
  unsigned size = 0;
  TB_ASSERT(::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
                   reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                   reinterpret_cast<unsigned char*>(bytes.data()), &size) != nullptr);
  return bytes;
}

}  // namespace

std::vector<http::Header> sign(const Signer& signer, const Signed& request) {
  const std::string body = digest(request.body);
  const std::string names = "host;x-amz-content-sha256;x-amz-date";
  const std::string canonical = request.method + "\n" + request.path + "\n" + request.query +
                                "\nhost:" + request.host + "\nx-amz-content-sha256:" + body +
                                "\nx-amz-date:" + request.time + "\n\n" + names + "\n" + body;
  const std::string day = request.time.substr(0, 8);
  const std::string scope = day + "/" + signer.region + "/s3/aws4_request";
  const std::string text =
      "AWS4-HMAC-SHA256\n" + request.time + "\n" + scope + "\n" + digest(canonical);
  std::string key = hmac("AWS4" + signer.secret, day);
  for (const std::string& part : {signer.region, std::string{"s3"}, std::string{"aws4_request"}}) {
    key = hmac(key, part);
  }
  const std::string signature = to_hex(hmac(key, text));
  return {{"x-amz-date", request.time},
          {"x-amz-content-sha256", body},
          {"Authorization", "AWS4-HMAC-SHA256 Credential=" + signer.key_id + "/" + scope +
                                ",SignedHeaders=" + names + ",Signature=" + signature}};
}

std::string encode_uri(std::string_view text, bool keep_slashes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool plain = letter || c == '-' || c == '_' || c == '.' || c == '~';
    if (plain || (keep_slashes && c == '/')) {
      out += c;
    } else {
      out.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
    }
  }
  return out;
}

}  // namespace tb::checkpoints
