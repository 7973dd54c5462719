// SPDX-License-Identifier: Apache-2.0
#include "auth/keyring.h"

#include <openssl/crypto.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/units.h"

namespace tb::auth {
namespace {

constexpr Milliseconds kLook = 100ms;
// More than the tick of any file system's clock.
constexpr Milliseconds kTick = 3s;
// File systems of this machine alone: statfs(2).
constexpr std::array<long, 9> kLocal{
    0xef53,                                     // ext4
    0x58465342,                                 // XFS
    0x9123683e, 0xca451a4e,                     // btrfs, bcachefs
    0x2fc12fc1, 0xf2f52010,                     // ZFS, F2FS
    0x01021994, static_cast<long>(0x858458f6),  // tmpfs, ramfs
    0x794c7630,                                 // overlayfs
};

}  // namespace

Keyring::Keyring(const std::string& path) : path_(path), table_(path), traces_(look()) {
  version_ = table_->version();
  take_changes();
  table_->wait_for_nobody();  // the loop has other things to do
}

std::optional<Keyring::Traces> Keyring::look() const {
  struct stat info{};
  if (::stat(path_.c_str(), &info) != 0) return std::nullopt;
  return Traces{{info.st_dev, info.st_ino},
                info.st_size,
                {info.st_mtim.tv_sec, info.st_mtim.tv_nsec},
                {info.st_ctim.tv_sec, info.st_ctim.tv_nsec}};
}

// Whether a change leaves other traces at once. Another machine's file system may tell what was
// true a minute ago.
bool Keyring::leaves_traces() {
  struct statfs system{};
  if (::statfs(path_.c_str(), &system) != 0 || !table_->writes_in_place()) return false;
  return std::find(kLocal.begin(), kLocal.end(), system.f_type) != kLocal.end();
}

// All of them, if the file does not go on from where it was: a copy may have been put in its place.
void Keyring::take_changes() {
  const bool first = last_.number == 0;
  if (!first && !anew_) anew_ = !table_->has(last_);
  KeyTable::Change last = anew_ ? KeyTable::Change{} : last_;
  std::vector<Key> changed = table_->changed_since(last);
  if (anew_) keys_.clear();
  anew_ = false;
  last_ = std::move(last);
  for (Key& key : changed) {
    const std::string id = key.id;
    keys_.insert_or_assign(id, std::move(key));
  }
  any_ = any_ || !keys_.empty();
}

// To ask the table takes ten system calls, and most requests come when the caches are cold.
void Keyring::refresh(Clock::time_point now) {
  if (now - looked_ < kLook) return;
  looked_ = now;
  const std::optional<Traces> traces = look();
  if (!traces || traces != traces_) {
    traces_since_ = now;
    settled_ = false;
  }
  if (settled_) return;
  // As a copy that is put in its place does. Of one that is gone, what is known stays.
  const bool replaced = traces && traces_ && traces->file != traces_->file;
  if (traces) traces_ = traces;
  try {
    if (replaced || !table_) open_again();
    const std::int64_t version = table_->version();
    if (version != version_ || failing_ || anew_) take_changes();
    version_ = version;
    failing_ = false;
    settled_ = now - traces_since_ >= kTick && leaves_traces();
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
  anew_ = true;
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
