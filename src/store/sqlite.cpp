// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>

namespace tb::store {
namespace {

constexpr int kPrimary = 0xff;  // an extended result has its kind in the low byte

Code code_of(int result) {
  switch (result & kPrimary) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_ERROR:
    case SQLITE_MISUSE: return Code::internal;
    case SQLITE_CONSTRAINT: return Code::conflict;
    case SQLITE_NOMEM: return Code::exhausted;
    default: return Code::unavailable;
  }
}

std::string reason(sqlite3* database, int result) {
  std::string words = database ? sqlite3_errmsg(database) : sqlite3_errstr(result);
  const int kind = result & kPrimary;
  if (kind == SQLITE_IOERR || kind == SQLITE_FULL || kind == SQLITE_CANTOPEN) {
    const int number = database ? sqlite3_system_errno(database) : 0;
    if (number != 0) words += std::string{" ("} + std::strerror(number) + ")";
  }
  return words;
}

}  // namespace

std::int64_t to_number(std::chrono::system_clock::time_point time) {
  const auto since = time.time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(since).count();
}

std::chrono::system_clock::time_point to_time(std::int64_t number) {
  constexpr std::int64_t kLatest = 1000ll << 32;
  const std::chrono::milliseconds since{std::clamp<std::int64_t>(number, 0, kLatest)};
  return std::chrono::system_clock::time_point{since};
}

SqliteError::SqliteError(sqlite3* database, int result, const std::string& doing)
    : Error(code_of(result), doing + ": " + reason(database, result)), result_(result) {}

bool SqliteError::damaged() const {
  const int kind = result_ & kPrimary;
  return kind == SQLITE_CORRUPT || kind == SQLITE_NOTADB;
}

bool SqliteError::busy() const {
  const int kind = result_ & kPrimary;
  return kind == SQLITE_BUSY || kind == SQLITE_LOCKED;
}

bool SqliteError::duplicate() const { return (result_ & kPrimary) == SQLITE_CONSTRAINT; }

void Connection::Close::operator()(sqlite3* database) const { sqlite3_close_v2(database); }

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Connection::Connection(const std::string& path) {
  sqlite3* database = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int result = sqlite3_open_v2(path.c_str(), &database, flags, nullptr);
  database_.reset(database);  // there even after a failure
  if (result != SQLITE_OK) throw SqliteError{database, result, "open " + path};
}

void Connection::run(const char* sql) {
  const int result = sqlite3_exec(get(), sql, nullptr, nullptr, nullptr);
  if (result != SQLITE_OK) throw SqliteError{get(), result, "database"};
}

std::int64_t Connection::number(const char* sql) {
  Statement statement{*this, sql};
  return statement.step() ? statement.number(0) : 0;
}

std::string Connection::text(const char* sql) {
  Statement statement{*this, sql};
  return statement.step() ? statement.text(0) : std::string{};
}

bool Connection::in_transaction() const { return sqlite3_get_autocommit(get()) == 0; }

bool Connection::read_only() const { return sqlite3_db_readonly(get(), "main") != 0; }

Statement::Statement(Connection& connection, const char* sql) {
  sqlite3_stmt* statement = nullptr;
  const int result =
      sqlite3_prepare_v3(connection.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  statement_.reset(statement);
  if (result != SQLITE_OK) throw SqliteError{connection.get(), result, "database"};
}

bool Statement::step() {
  const int result = sqlite3_step(statement_.get());
  if (result == SQLITE_ROW) return true;
  if (result == SQLITE_DONE) {
    reset();
    return false;
  }
  const SqliteError error{sqlite3_db_handle(statement_.get()), result, "database"};
  reset();
  throw error;
}

std::int64_t Statement::number(int column) const {
  return sqlite3_column_int64(statement_.get(), column);
}

std::string Statement::text(int column) const {
  const auto* bytes = sqlite3_column_text(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return bytes ? std::string{reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)}
               : std::string{};
}

// What it returns is the failure of the last step, which was thrown already.
void Statement::reset() { sqlite3_reset(statement_.get()); }

void Statement::bind_one(int index, std::int64_t value) {
  const int result = sqlite3_bind_int64(statement_.get(), index, value);
  if (result != SQLITE_OK) {
    throw SqliteError{sqlite3_db_handle(statement_.get()), result, "database"};
  }
}

void Statement::bind_one(int index, std::string_view value) {
  // An empty view may have no bytes, which would bind NULL.
  const char* bytes = value.empty() ? "" : value.data();
  const int result = sqlite3_bind_text64(statement_.get(), index, bytes, value.size(),
                                         SQLITE_TRANSIENT, SQLITE_UTF8);
  if (result != SQLITE_OK) {
    throw SqliteError{sqlite3_db_handle(statement_.get()), result, "database"};
  }
}

}  // namespace tb::store
