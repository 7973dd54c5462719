// SPDX-License-Identifier: Apache-2.0
#include "auth/key_table.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/random.h>

#include <algorithm>

#include "auth/base64url.h"
#include "base/error.h"
#include "base/hex.h"
#include "base/sha256.h"
#include "base/utf8.h"
#include "os/fd.h"
#include "store/schema.h"

namespace tb::auth {
namespace {

constexpr int kBusy = 5000;  // milliseconds
constexpr std::size_t kIdBytes = 6;
constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kSecretSize = 43;
constexpr std::size_t kMaxName = 200;
constexpr std::string_view kPrefix = "tb_";

constexpr const char* kMigrations[] = {
    R"(
CREATE TABLE keys (
  id TEXT NOT NULL PRIMARY KEY,
  digest TEXT NOT NULL,
  tenant TEXT NOT NULL,
  role TEXT NOT NULL,
  scopes TEXT NOT NULL,
  name TEXT NOT NULL,
  created_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,
  revoked_ms INTEGER NOT NULL,
  change INTEGER NOT NULL UNIQUE
) STRICT;
)",
};

constexpr const char* kColumns =
    "SELECT id, digest, tenant, role, scopes, name, created_ms, expires_ms, revoked_ms, change "
    "FROM keys ";

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  TB_ASSERT(::getrandom(bytes.data(), count, 0) == static_cast<ssize_t>(count));
  return bytes;
}

// A damaged one fits no secret.
Digest read_digest(std::string_view text) {
  Digest digest{};
  const auto bytes = from_hex(text);
  if (bytes && bytes->size() == digest.size()) std::ranges::copy(*bytes, digest.begin());
  return digest;
}

store::Connection connect(const std::string& path) {
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  {
    const os::Fd file{check(::open(path.c_str(), flags, 0600), "open " + path)};
  }
  store::Connection connection{path};
  sqlite3_busy_timeout(connection.get(), kBusy);
  // A log beside the file, and no memory that is shared: the server and whoever makes a key may be
  // different users.
  connection.run("PRAGMA journal_mode=DELETE");
  connection.run("PRAGMA mmap_size=0");
  connection.run("PRAGMA trusted_schema=OFF");
  connection.run("PRAGMA synchronous=FULL");
  try {
    store::migrate(connection, kMigrations);
  } catch (const store::SqliteError&) {
    store::migrate(connection, kMigrations);  // another program did it meanwhile
  }
  return connection;
}

Key read(const store::Statement& row) {
  Key key;
  key.id = row.text(0);
  key.digest = read_digest(row.text(1));
  key.tenant = row.text(2);
  key.role = find_role(row.text(3)).value_or(Role::readonly);
  try {
    key.scopes = parse_scopes(row.text(4));
  } catch (const Error&) {
    key.scopes = 0;  // words of a newer program: better too little than too much
  }
  key.name = row.text(5);
  key.created = store::to_time(row.number(6));
  key.expires = store::to_time(row.number(7));
  key.revoked = store::to_time(row.number(8));
  return key;
}

}  // namespace

std::optional<KeyText> KeyText::parse(std::string_view text) {
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  if (text.size() != 2 * kIdBytes + 1 + kSecretSize || text[2 * kIdBytes] != '_') {
    return std::nullopt;
  }
  return KeyText{text.substr(0, 2 * kIdBytes), text.substr(2 * kIdBytes + 1)};
}

KeyTable::KeyTable(const std::string& path) try : connection_(connect(path)) {
} catch (const Error& error) {
  throw Error{error.code(), "the API keys in " + path + " can't be read: " + error.what()};
}

std::string KeyTable::create(Key& key) {
  if (!is_tenant_name(key.tenant)) {
    throw Error{Code::invalid,
                "a tenant's name has 1 to 64 letters, digits, dots, dashes and underscores"};
  }
  if (key.name.size() > kMaxName || to_utf8(key.name) != key.name) {
    throw Error{Code::invalid, "a key's name has at most 200 bytes of UTF-8"};
  }
  key.id = to_hex(random_bytes(kIdBytes));
  key.created = std::chrono::system_clock::now();
  key.revoked = {};
  const std::string secret = base64url(random_bytes(kSecretBytes));
  key.digest = sha256(secret);
  store::Statement insert{connection_,
                          "INSERT INTO keys VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, "
                          "(SELECT coalesce(max(change), 0) + 1 FROM keys))"};
  insert
      .bind(key.id, to_hex(key.digest), key.tenant, name_of(key.role), to_text(key.scopes),
            key.name, store::to_number(key.created), store::to_number(key.expires))
      .run();
  return std::string{kPrefix} + key.id + "_" + secret;
}

void KeyTable::together(const std::function<void()>& work) {
  connection_.run("BEGIN IMMEDIATE");
  try {
    work();
    connection_.run("COMMIT");
  } catch (...) {
    if (connection_.in_transaction()) connection_.run("ROLLBACK");
    throw;
  }
}

bool KeyTable::revoke(const std::string& id) {
  bool found = false;
  together([&] {
    store::Statement look{connection_, "SELECT 1 FROM keys WHERE id = ?1"};
    look.bind(id);
    while (look.step()) found = true;
    store::Statement update{
        connection_,
        "UPDATE keys SET revoked_ms = ?2, change = (SELECT max(change) + 1 FROM keys) "
        "WHERE id = ?1 AND revoked_ms = 0"};
    update.bind(id, store::to_number(std::chrono::system_clock::now())).run();
  });
  return found;
}

std::vector<Key> KeyTable::list() {
  std::vector<Key> keys;
  const std::string sql = std::string{kColumns} + "ORDER BY created_ms, id";
  store::Statement rows{connection_, sql.c_str()};
  rows.bind();
  while (rows.step()) keys.push_back(read(rows));
  return keys;
}

std::int64_t KeyTable::version() { return connection_.number("PRAGMA data_version"); }

std::vector<Key> KeyTable::changed_since(Change& last) {
  std::vector<Key> keys;
  const std::string sql = std::string{kColumns} + "WHERE change > ?1 ORDER BY change";
  store::Statement rows{connection_, sql.c_str()};
  rows.bind(last.number);
  while (rows.step()) {
    keys.push_back(read(rows));
    last = {rows.number(9), keys.back().id, keys.back().revoked};
  }
  return keys;
}

bool KeyTable::has(const Change& change) {
  store::Statement row{connection_,
                       "SELECT 1 FROM keys WHERE id = ?1 AND change = ?2 AND revoked_ms = ?3"};
  row.bind(change.id, change.number, store::to_number(change.revoked));
  return row.step();
}

bool KeyTable::writes_in_place() { return connection_.text("PRAGMA journal_mode") == "delete"; }

void KeyTable::wait_for_nobody() { sqlite3_busy_timeout(connection_.get(), 0); }

}  // namespace tb::auth
