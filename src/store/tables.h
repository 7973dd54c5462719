// SPDX-License-Identifier: Apache-2.0
// The database file as rows of sessions and events; every call may wait for the disk.
// One thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "session/store.h"
#include "store/outbox_table.h"
#include "store/sqlite.h"

namespace tb::store {

using session::Event;
using session::StoredSession;
using session::WallTime;

class Tables {
 public:
  // Makes the file if there is none; waits for `busy` if another program has it. Throws SqliteError
  // with damaged() when it is not ours to read, Error{invalid} when a newer program wrote it.
  Tables(const std::string& path, Milliseconds busy);

  void begin() { connection_.run("BEGIN IMMEDIATE"); }
  void commit() { connection_.run("COMMIT"); }
  // Nothing to do when SQLite did it already, as it does on a full disk.
  void rollback() noexcept;

  std::vector<StoredSession> sessions();
  void put(const StoredSession& session);  // throws Error{conflict}
  void touch(const std::string& id, WallTime last_activity);
  void remove(const std::string& id);
  void record(const Event& event);
  void trim(std::size_t keep);
  std::vector<Event> events(const std::string& session, std::size_t limit);
  OutboxTable& outbox() { return outbox_; }
  WebhooksTable& webhooks() { return webhooks_; }

 private:
  Connection connection_;
  Statement sessions_, put_, touch_, remove_, record_, trim_, all_events_, events_;
  OutboxTable outbox_;
  WebhooksTable webhooks_;
};

struct Opened {
  std::unique_ptr<Tables> tables;
  std::string recovered;  // what was damaged, and where it is now; empty: nothing was
};

// A damaged file is set aside as `path`.damaged-<time> with its log, and a fresh one is begun; one
// whose `damage` is known already is not tried again. Throws Error{invalid} when a newer program
// wrote it, {conflict} when another has it open, {unavailable} when a right or the disk is missing.
Opened open_tables(const std::string& path, Milliseconds busy, std::string damage = {});

}  // namespace tb::store
