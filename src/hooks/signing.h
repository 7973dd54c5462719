// SPDX-License-Identifier: Apache-2.0
// Signatures as Standard Webhooks has them: HMAC-SHA256 of "id.timestamp.body", so that a receiver
// knows who sent something, and that it is not an old one sent again.
#pragma once

#include <cstdint>
#include <optional>
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

// What a webhook's events are signed with, as it is kept: "whsec_…", and for a day after a change
// also what it was before, and until when: "whsec_… whsec_… 1794882085".
class Secrets {
 public:
  // Throws Error{invalid}.
  static Secrets parse(std::string_view kept);

  std::string text() const;
  const Secret& current() const { return current_; }
  // With another one from now on, in seconds since 1970. Receivers have a day to learn it.
  Secrets changed_to(Secret next, std::int64_t now) const;
  // The value of webhook-signature: by each that is good at that time.
  std::string sign(std::string_view id, std::int64_t timestamp, std::string_view body) const;

 private:
  explicit Secrets(Secret current) : current_(std::move(current)) {}
  Secret current_;
  std::optional<Secret> before_;
  std::int64_t until_ = 0;
};

// The secret of a file, which may end in a newline.
Secret read_secret(const std::string& path);
// The same; made, with mode 0600, when there is none.
Secret load_or_make_secret(const std::string& path, bool& made);

}  // namespace tb::hooks
