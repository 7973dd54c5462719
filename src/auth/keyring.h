// SPDX-License-Identifier: Apache-2.0
// The API keys of a server, in memory: a request costs no disk. What `threadbox keys` changes
// counts within a tenth of a second, at the next request. Used from one thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "auth/key_table.h"

namespace tb::auth {

class Keyring {
 public:
  // Reads all of them. Throws Error.
  explicit Keyring(const std::string& path);

  // There is a key, or was one: from then on nobody comes in without.
  bool any() const { return any_; }
  std::size_t size() const { return keys_.size(); }

  enum class Verdict { good, unknown, expired, revoked };
  struct Found {
    Verdict verdict = Verdict::unknown;
    const Key* key = nullptr;  // of a good one; until the next call of refresh()
  };
  // Takes the same time for a key that is not there and for one whose secret is another.
  Found find(std::string_view text, WallTime now) const;

  // By its id alone: it is there, and neither expired nor revoked.
  bool is_good(const std::string& id, WallTime now) const;

  // Looks for changes, if the last look was long enough ago. What can't be read stays as it is, and
  // is looked at again.
  void refresh(std::chrono::steady_clock::time_point now);

 private:
  void take_changes();
  bool was_replaced();
  void open_again();

  std::string path_;
  std::optional<KeyTable> table_;
  std::pair<std::uint64_t, std::uint64_t> file_ = {};  // device and inode
  std::unordered_map<std::string, Key> keys_;
  std::int64_t version_ = 0;
  std::int64_t change_ = 0;
  std::chrono::steady_clock::time_point looked_ = {};
  bool any_ = false;
  bool failing_ = false;
};

}  // namespace tb::auth
