// SPDX-License-Identifier: Apache-2.0
// The audit log: lines are only ever added, to files that are renamed when they are full. Who tells
// it something never waits: a thread of its own writes, many lines at a time.
//
//   <dir>/audit.jsonl      the newest
//   <dir>/audit.jsonl.1    the one before it, and so on up to `keep`
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "audit/entry.h"
#include "audit/redactor.h"
#include "base/units.h"
#include "os/fd.h"

namespace tb::audit {

// The file of this number; 0 is the newest.
std::string file_path(const std::string& dir, unsigned number);

class Log {
 public:
  struct Settings {
    std::string dir;
    Bytes max_bytes = 64_MiB;  // of a file
    unsigned keep = 10;        // older files
    // What waits to be written; beyond that it is lost, and the log says how much.
    std::size_t queue = 16'384;
    Bytes queue_bytes = 16_MiB;
    Milliseconds linger = 100ms;  // lines wait so long for company; a crash loses as much
  };
  // Numbers go on where the last line stopped. Throws Error when the directory can't be written.
  Log(Settings settings, Redactor redactor);
  ~Log();

  // From one thread.
  void write(Entry entry);
  // Until all that was told before is written, or can't be; waits for the disk.
  void flush(Milliseconds limit);
  // Writes what waits, all the way to the disk. Waits for it.
  void close();

  struct Counts {
    std::uint64_t written = 0;
    std::uint64_t lost = 0;
    std::string problem = {};  // with the disk; empty: none
  };
  Counts counts() const;
  const Settings& settings() const { return settings_; }

 private:
  // On the thread of its own.
  void work();
  std::vector<Entry> next_batch();
  void write_batch(std::vector<Entry> batch);
  std::string attempt(const std::string& bytes);
  void tell_losses();
  void open_newest();
  void rotate();
  void append(const std::string& bytes);
  void tell(const std::string& problem);

  const Settings settings_;
  Redactor redactor_;
  os::Fd file_;             // invalid: to be opened again
  std::uint64_t size_ = 0;  // of what is good in it
  std::uint64_t number_ = 0;
  std::uint64_t told_lost_ = 0;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::condition_variable done_;
  std::vector<Entry> waiting_;
  std::uint64_t waiting_bytes_ = 0;
  std::uint64_t entered_ = 0;   // ever
  std::uint64_t finished_ = 0;  // of these; written or lost
  bool hurry_ = false;
  bool closing_ = false;
  Counts counts_;

  std::thread thread_;
};

}  // namespace tb::audit
