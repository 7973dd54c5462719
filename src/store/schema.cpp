// SPDX-License-Identifier: Apache-2.0
#include "store/schema.h"

#include <sqlite3.h>

namespace tb::store {
namespace {

constexpr const char* kMigrations[] = {
    R"(
CREATE TABLE sessions (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  thread TEXT NOT NULL,
  user TEXT NOT NULL,
  policy TEXT NOT NULL,
  idle_ms INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  last_activity_ms INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX sessions_thread ON sessions (thread) WHERE thread <> '';
CREATE TABLE events (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  at_ms INTEGER NOT NULL,
  kind TEXT NOT NULL,
  session TEXT NOT NULL,
  thread TEXT NOT NULL,
  user TEXT NOT NULL,
  detail TEXT NOT NULL
) STRICT;
CREATE INDEX events_session ON events (session, number);
)",
    R"(
CREATE TABLE deliveries (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  state INTEGER NOT NULL,
  type TEXT NOT NULL,
  url TEXT NOT NULL,
  session TEXT NOT NULL,
  thread TEXT NOT NULL,
  process INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  next_ms INTEGER NOT NULL,
  ended_ms INTEGER NOT NULL,
  status INTEGER NOT NULL,
  error TEXT NOT NULL,
  size INTEGER NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE INDEX deliveries_state ON deliveries (state, ended_ms, number);
)",
    R"(
ALTER TABLE sessions ADD COLUMN provider TEXT NOT NULL DEFAULT 'native';
ALTER TABLE sessions ADD COLUMN environment TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN agent TEXT NOT NULL DEFAULT '';
)",
    R"(
ALTER TABLE sessions ADD COLUMN tenant TEXT NOT NULL DEFAULT '';
DROP INDEX sessions_thread;
CREATE UNIQUE INDEX sessions_thread ON sessions (tenant, thread) WHERE thread <> '';
)",
};

// No program will ever write such a version; a flipped bit does.
constexpr std::int64_t kAbsurd = 1000;

}  // namespace

std::span<const char* const> migrations() { return kMigrations; }

void migrate(Connection& connection, std::span<const char* const> steps) {
  const std::int64_t version = connection.number("PRAGMA user_version");
  const auto known = static_cast<std::int64_t>(steps.size());
  if (version < 0 || version > kAbsurd) {
    throw SqliteError{nullptr, SQLITE_CORRUPT, "version " + std::to_string(version)};
  }
  if (version > known) {
    throw Error{Code::invalid, "its tables have version " + std::to_string(version) +
                                   ", this program knows up to " + std::to_string(known) +
                                   ": run the newer program, or choose another state directory"};
  }
  for (std::int64_t next = version; next < known; ++next) {
    const std::string script = std::string{"BEGIN IMMEDIATE;"} +
                               steps[static_cast<std::size_t>(next)] +
                               ";PRAGMA user_version=" + std::to_string(next + 1) + ";COMMIT;";
    try {
      connection.run(script.c_str());
    } catch (...) {
      if (connection.in_transaction()) connection.run("ROLLBACK");
      throw;
    }
  }
}

}  // namespace tb::store
