// SPDX-License-Identifier: Apache-2.0
#include "auth/keyring.h"

#include <openssl/crypto.h>

#include "base/error.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/units.h"

namespace tb::auth {
namespace {

constexpr Milliseconds kLook = 100ms;

}  // namespace

Keyring::Keyring(const std::string& path) : table_(path) {
  version_ = table_.version();
  take_changes();
  table_.wait_for_nobody();  // the loop has other things to do
}

void Keyring::take_changes() {
  for (Key& key : table_.changed_since(change_)) {
    const std::string id = key.id;
    keys_.insert_or_assign(id, std::move(key));
  }
}

void Keyring::refresh(std::chrono::steady_clock::time_point now) {
  if (now - looked_ < kLook) return;
  looked_ = now;
  try {
    const std::int64_t version = table_.version();
    if (version == version_ && !failing_) return;
    take_changes();
    version_ = version;
    failing_ = false;
  } catch (const store::SqliteError& error) {
    if (!failing_ && !error.busy()) {
      log(LogLevel::error, "keys_unreadable", {{"error", error.what()}});
    }
    failing_ = true;
  }
}

Keyring::Found Keyring::find(std::string_view text, WallTime now) const {
  static const Key nobody;
  const auto parts = KeyText::parse(text);
  if (!parts) return {};
  const auto found = keys_.find(std::string{parts->id});
  const Key& key = found == keys_.end() ? nobody : found->second;
  const Digest digest = sha256(parts->secret);
  const bool same = CRYPTO_memcmp(digest.data(), key.digest.data(), digest.size()) == 0;
  if (!same || found == keys_.end()) return {};
  if (key.revoked != WallTime{}) return {Verdict::revoked, nullptr};
  if (key.expires != WallTime{} && key.expires <= now) return {Verdict::expired, nullptr};
  return {Verdict::good, &key};
}

}  // namespace tb::auth
