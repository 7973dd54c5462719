// SPDX-License-Identifier: Apache-2.0
#include "auth/keyring.h"

#include <openssl/crypto.h>
#include <sys/stat.h>

#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/units.h"

namespace tb::auth {
namespace {

constexpr Milliseconds kLook = 100ms;

}  // namespace

Keyring::Keyring(const std::string& path) : path_(path), table_(path) {
  static_cast<void>(was_replaced());
  version_ = table_->version();
  take_changes();
  table_->wait_for_nobody();  // the loop has other things to do
}

// As a copy that is put in its place does.
bool Keyring::was_replaced() {
  struct stat info{};
  if (::stat(path_.c_str(), &info) != 0) return false;  // what is known stays
  const std::pair<std::uint64_t, std::uint64_t> file{info.st_dev, info.st_ino};
  return std::exchange(file_, file) != file;
}

void Keyring::take_changes() {
  for (Key& key : table_->changed_since(change_)) {
    const std::string id = key.id;
    keys_.insert_or_assign(id, std::move(key));
  }
  any_ = any_ || !keys_.empty();
}

void Keyring::refresh(std::chrono::steady_clock::time_point now) {
  if (now - looked_ < kLook) return;
  looked_ = now;
  try {
    if (was_replaced() || !table_) open_again();
    const std::int64_t version = table_->version();
    if (version == version_ && !failing_) return;
    take_changes();
    version_ = version;
    failing_ = false;
  } catch (const store::SqliteError& error) {
    if (!failing_ && !error.busy()) {
      log(LogLevel::error, "keys_unreadable", {{"error", error.what()}});
    }
    failing_ = true;
  } catch (const Error& error) {
    if (!failing_) log(LogLevel::error, "keys_unreadable", {{"error", error.what()}});
    failing_ = true;
  }
}

// What is in the new file counts, and nothing else; but nobody comes in without a key because of
// it.
void Keyring::open_again() {
  table_.reset();
  table_.emplace(path_);
  table_->wait_for_nobody();
  version_ = table_->version();
  change_ = 0;
  keys_.clear();
  take_changes();
}

bool Keyring::is_good(const std::string& id, WallTime now) const {
  const auto found = keys_.find(id);
  if (found == keys_.end() || found->second.revoked != WallTime{}) return false;
  return found->second.expires == WallTime{} || found->second.expires > now;
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
