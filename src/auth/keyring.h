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
  using Clock = std::chrono::steady_clock;

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
  void refresh(Clock::time_point now);

 private:
  // What a change of a file leaves a trace in, but for one within the same tick of its clock.
  struct Traces {
    std::pair<std::uint64_t, std::uint64_t> file;  // device and inode
    std::int64_t size = 0;
    std::pair<std::int64_t, std::int64_t> written;  // seconds and nanoseconds
    std::pair<std::int64_t, std::int64_t> changed;
    bool operator==(const Traces&) const = default;
  };
  std::optional<Traces> look() const;
  bool leaves_traces();
  void take_changes();
  void open_again();

  std::string path_;
  std::optional<KeyTable> table_;
  std::optional<Traces> traces_;
  Clock::time_point traces_since_ = Clock::now();
  bool settled_ = false;  // the file was read when a change would have left another trace
  std::unordered_map<std::string, Key> keys_;
  std::int64_t version_ = 0;
  KeyTable::Change last_;
  bool anew_ = false;  // what is known is of another file
  Clock::time_point looked_ = {};
  bool any_ = false;
  bool failing_ = false;
};

}  // namespace tb::auth
