// SPDX-License-Identifier: Apache-2.0
// API keys on disk: a SQLite file that `threadbox keys` writes while a server reads it. Of a key
// only the SHA-256 of its secret part is kept. Rows stay when they are revoked: whoever once had
// keys does not become open to everybody by losing the last one.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "auth/principal.h"
#include "store/sqlite.h"

namespace tb::auth {

using WallTime = std::chrono::system_clock::time_point;
using Digest = std::array<std::uint8_t, 32>;

struct Key {
  std::string id;
  std::string tenant;
  Role role = Role::user;
  Scopes scopes = kAllScopes;
  std::string name;  // for people
  WallTime created = {};
  WallTime expires = {};  // 1970: never
  WallTime revoked = {};  // 1970: not
  Digest digest = {};
};

// "tb_", the id, "_" and 43 characters of base64url: 256 bits that nobody can guess.
struct KeyText {
  std::string_view id;
  std::string_view secret;
  // Empty when it is not such a text.
  static std::optional<KeyText> parse(std::string_view text);
};

class KeyTable {
 public:
  // Makes the file, with mode 0600, if there is none. Waits up to 5 seconds while another program
  // writes it. Throws Error.
  explicit KeyTable(const std::string& path);

  // Adds a key of which id, time and digest are made here. Returns its text, which is known to
  // nobody else and nowhere else from now on. Throws Error{invalid} for a bad name.
  std::string create(Key& key);
  // Many at once: `work` calls create(), and all of it is written in the end.
  void together(const std::function<void()>& work);
  // False: there is none of this id. Revoking one again changes nothing.
  bool revoke(const std::string& id);
  // There is one, or was.
  bool any() {
    return connection_.number("SELECT count(*) FROM (SELECT 1 FROM keys LIMIT 1)") != 0;
  }
  // In the order of their creation.
  std::vector<Key> list();

  // ---- for who keeps them in memory ----
  // Another number than the last time when another program has written since.
  std::int64_t version();
  // What was written last: its number and what it made of which key. None, in an empty table.
  struct Change {
    std::int64_t number = 0;
    std::string id;
    WallTime revoked;
  };
  // Those that were made or changed after `last`, which becomes the last change.
  std::vector<Key> changed_since(Change& last);
  // Not so in a file that an older one was copied over, or when that key has changed again.
  bool has(const Change& change);
  // Each change is in the file itself; not so if another program gave it a log that stays.
  bool writes_in_place();
  // From now on a file that is being written is not waited for: these throw then.
  void wait_for_nobody();

 private:
  store::Connection connection_;
};

}  // namespace tb::auth
