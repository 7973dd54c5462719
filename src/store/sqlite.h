// SPDX-License-Identifier: Apache-2.0
// A thin layer over SQLite's C interface: what must be released is a type, what failed is thrown.
// One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"

struct sqlite3;
struct sqlite3_stmt;

namespace tb::store {

// Times as the tables have them: milliseconds since 1970. A damaged number is a wrong time, but one
// that can be reckoned with.
std::int64_t to_number(std::chrono::system_clock::time_point time);
std::chrono::system_clock::time_point to_time(std::int64_t number);

class SqliteError : public Error {
 public:
  SqliteError(sqlite3* database, int result, const std::string& doing);
  // The bytes on the disk are not (or no longer) those of a database.
  bool damaged() const;
  bool busy() const;
  // A row that must be the only one of its kind is not.
  bool duplicate() const;

 private:
  int result_;
};

class Connection {
 public:
  // The file must be there and writable.
  explicit Connection(const std::string& path);
  void run(const char* sql);
  std::int64_t number(const char* sql);  // the first column of the first row
  std::string text(const char* sql);
  bool in_transaction() const;
  bool read_only() const;
  sqlite3* get() const { return database_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::unique_ptr<sqlite3, Close> database_;
};

class Statement {
 public:
  Statement(Connection& connection, const char* sql);

  // Parameters, from the first on. Starts anew.
  template <class... Values>
  Statement& bind(const Values&... values) {
    reset();
    int index = 0;
    (bind_one(++index, values), ...);
    return *this;
  }
  // True: there is a row. After false or an error it is ready for the next use.
  bool step();
  void run() {
    while (step()) {
    }
  }

  std::int64_t number(int column) const;
  std::string text(int column) const;

 private:
  void reset();
  void bind_one(int index, std::int64_t value);
  void bind_one(int index, std::string_view value);

  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

}  // namespace tb::store
