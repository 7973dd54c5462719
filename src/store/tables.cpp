// SPDX-License-Identifier: Apache-2.0
#include "store/tables.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <limits>

#include "store/schema.h"

namespace tb::store {
namespace {

// SQLite would make it with the umask's rights; its log gets the rights of the file.
void ensure_file(const std::string& path) {
  const int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  const int file = check(::open(path.c_str(), flags, 0600), "open " + path);
  struct stat info{};
  const bool open_to_others = ::fstat(file, &info) == 0 && (info.st_mode & 077) != 0;
  const int result = open_to_others ? ::fchmod(file, 0600) : 0;
  const int number = errno;
  ::close(file);
  if (result != 0) throw SystemError{number, "chmod " + path};
}

void configure(Connection& connection, Milliseconds busy) {
  sqlite3_busy_timeout(connection.get(), static_cast<int>(busy.count()));
  // Exclusive: one server has it, and no memory is shared that a full disk could take away
  // (SIGBUS). It must come before the first access.
  connection.run("PRAGMA locking_mode=EXCLUSIVE");
  connection.run("PRAGMA mmap_size=0");
  connection.run("PRAGMA trusted_schema=OFF");
  connection.run("PRAGMA cell_size_check=ON");
  if (connection.text("PRAGMA journal_mode=WAL") != "wal") {
    throw Error{Code::unavailable, "the file system can't hold the log of the database"};
  }
  connection.run("PRAGMA synchronous=NORMAL");
  connection.run("PRAGMA journal_size_limit=16777216");
}

Connection connect(const std::string& path, Milliseconds busy) {
  ensure_file(path);
  Connection connection{path};
  if (connection.read_only()) throw Error{Code::unavailable, "the file can't be written"};
  configure(connection, busy);
  // The first bytes, now read, name a format of the future.
  if (connection.read_only()) throw SqliteError{nullptr, SQLITE_CORRUPT, "format"};
  migrate(connection, migrations());
  const std::string verdict = connection.text("PRAGMA quick_check(1)");
  if (verdict != "ok") throw SqliteError{nullptr, SQLITE_CORRUPT, verdict};
  return connection;
}

}  // namespace

Tables::Tables(const std::string& path, Milliseconds busy)
    : connection_(connect(path, busy)),
      sessions_(connection_,
                "SELECT id, thread, user, policy, idle_ms, created_ms, last_activity_ms, "
                "provider, environment, agent, tenant "
                "FROM sessions ORDER BY created_ms, number"),
      put_(connection_,
           "INSERT INTO sessions (id, thread, user, policy, idle_ms, created_ms, last_activity_ms, "
           "provider, environment, agent, tenant) "
           "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) "
           "ON CONFLICT (id) DO UPDATE SET thread = ?2, user = ?3, policy = ?4, idle_ms = ?5, "
           "created_ms = ?6, last_activity_ms = ?7, provider = ?8, environment = ?9, agent = ?10, "
           "tenant = ?11"),
      touch_(connection_, "UPDATE sessions SET last_activity_ms = ?2 WHERE id = ?1"),
      remove_(connection_, "DELETE FROM sessions WHERE id = ?1"),
      record_(connection_,
              "INSERT INTO events (at_ms, kind, session, thread, user, detail) "
              "VALUES (?1, ?2, ?3, ?4, ?5, ?6)"),
      trim_(connection_,
            "DELETE FROM events WHERE number <= (SELECT max(number) FROM events) - ?1"),
      all_events_(connection_,
                  "SELECT number, at_ms, kind, session, thread, user, detail FROM events "
                  "ORDER BY number DESC LIMIT ?1"),
      events_(connection_,
              "SELECT number, at_ms, kind, session, thread, user, detail FROM events "
              "WHERE session = ?2 ORDER BY number DESC LIMIT ?1"),
      outbox_(connection_) {}

void Tables::rollback() noexcept {
  if (!connection_.in_transaction()) return;
  sqlite3_exec(connection_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
}

std::vector<StoredSession> Tables::sessions() {
  std::vector<StoredSession> result;
  sessions_.bind();
  while (sessions_.step()) {
    StoredSession& session = result.emplace_back();
    session.id = sessions_.text(0);
    session.thread = sessions_.text(1);
    session.user = sessions_.text(2);
    session.policy = sessions_.text(3);
    session.idle = Milliseconds{sessions_.number(4)};
    session.created = to_time(sessions_.number(5));
    session.last_activity = to_time(sessions_.number(6));
    session.provider = sessions_.text(7);
    session.environment = sessions_.text(8);
    session.agent = sessions_.text(9);
    session.tenant = sessions_.text(10);
  }
  return result;
}

void Tables::put(const StoredSession& session) {
  try {
    put_.bind(session.id, session.thread, session.user, session.policy,
              std::int64_t{session.idle.count()}, to_number(session.created),
              to_number(session.last_activity), session.provider, session.environment,
              session.agent, session.tenant)
        .run();
  } catch (const SqliteError& error) {
    if (!error.duplicate()) throw;
    throw Error{Code::conflict, "the thread of session " + session.id + " has another session"};
  }
}

void Tables::touch(const std::string& id, WallTime last_activity) {
  touch_.bind(id, to_number(last_activity)).run();
}

void Tables::remove(const std::string& id) { remove_.bind(id).run(); }

void Tables::record(const Event& event) {
  record_
      .bind(to_number(event.at), event.kind, event.session, event.thread, event.user, event.detail)
      .run();
}

void Tables::trim(std::size_t keep) { trim_.bind(static_cast<std::int64_t>(keep)).run(); }

std::vector<Event> Tables::events(const std::string& session, std::size_t limit) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  const auto most = static_cast<std::int64_t>(std::min(limit, kMost));
  Statement& rows = session.empty() ? all_events_.bind(most) : events_.bind(most, session);
  std::vector<Event> result;
  while (rows.step()) {
    Event& event = result.emplace_back();
    event.number = rows.number(0);
    event.at = to_time(rows.number(1));
    event.kind = rows.text(2);
    event.session = rows.text(3);
    event.thread = rows.text(4);
    event.user = rows.text(5);
    event.detail = rows.text(6);
  }
  return result;
}

namespace {

// Also of a link that leads nowhere.
bool exists(const std::string& path) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0;
}

bool has_bytes(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && info.st_size > 0;
}

std::string free_name(const std::string& path) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &parts);
  const std::string first = path + ".damaged-" + stamp;
  std::string name = first;
  for (int next = 2; exists(name); ++next) name = first + "-" + std::to_string(next);
  return name;
}

// The file goes first: a log without it is ignored, while a log beside a fresh file would not be.
std::string set_aside(const std::string& path) {
  const std::string name = free_name(path);
  check(::rename(path.c_str(), name.c_str()), "rename " + path);
  ::rename((path + "-wal").c_str(), (name + "-wal").c_str());
  ::unlink((path + "-shm").c_str());
  return name;
}

// Null when the file is damaged: `damage` says how.
std::unique_ptr<Tables> open_once(const std::string& path, Milliseconds busy, std::string& damage) {
  try {
    return std::make_unique<Tables>(path, busy);
  } catch (const SqliteError& error) {
    // A statement that does not fit the tables (internal) means that they are not ours.
    if (error.code() != Code::internal) throw;
    damage = error.what();
    return nullptr;
  }
}

}  // namespace

Opened open_tables(const std::string& path, Milliseconds busy, std::string damage) {
  Opened opened;
  try {
    if (exists(path) && !has_bytes(path)) {
      // Ours never is: its first page is there before the first table. SQLite would begin anew
      // and drop the log, in which all may be.
      if (has_bytes(path + "-wal")) damage = "it is empty, its log is not";
      opened.recovered = path + " was empty";
    }
    if (damage.empty()) opened.tables = open_once(path, busy, damage);
    if (!damage.empty()) {
      opened.recovered = path + " was damaged (" + damage + ") and is now " + set_aside(path);
      opened.tables = std::make_unique<Tables>(path, busy);
    }
    return opened;
  } catch (const SqliteError& error) {
    if (error.busy()) throw Error{Code::conflict, "another program is using " + path};
    throw Error{Code::unavailable, "the store " + path + " can't be opened: " + error.what()};
  } catch (const Error& error) {
    const Code code = error.code() == Code::invalid ? Code::invalid : Code::unavailable;
    throw Error{code, "the store " + path + " can't be opened: " + error.what()};
  }
}

}  // namespace tb::store
