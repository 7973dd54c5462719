// SPDX-License-Identifier: Apache-2.0
// Signatures as Standard Webhooks has them: HMAC-SHA256 of "id.timestamp.body", so that a receiver
// knows who sent something, and that it is not an old one sent again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tb::hooks {

class Secret {
 public:
  // "whsec_" and base64 of 24 to 64 bytes. Throws Error{invalid}, which does not repeat it.
  static Secret parse(std::string_view text);
  static Secret make();

  std::string text() const;
  // The value of webhook-signature.
  std::string sign(std::string_view id, std::int64_t timestamp, std::string_view body) const;

 private:
  explicit Secret(std::string key) : key_(std::move(key)) {}
  std::string key_;
};

// The secret of a file, which may end in a newline.
Secret read_secret(const std::string& path);
// The same; made, with mode 0600, when there is none.
Secret load_or_make_secret(const std::string& path, bool& made);

}  // namespace tb::hooks
