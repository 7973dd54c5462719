// SPDX-License-Identifier: Apache-2.0
// Bytes that wait on disk, in files without names: gone with the object, or with the process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/async.h"
#include "base/units.h"

namespace tb {

// Where they wait, how much of the disk all of them may take, and the thread that waits for it.
class Spools {
 public:
  Spools(std::string dir, Bytes most) : dir_(std::move(dir)), most_(most) {}
  Bytes held() const { return held_; }

 private:
  friend class Spool;
  std::string dir_;
  Bytes most_;
  Bytes held_;
  asio::thread_pool thread_{1};
};

// One file, made when the first bytes come. `spools` must outlive it.
class Spool {
 public:
  explicit Spool(Spools& spools) : spools_(spools) {}
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // False: there is no room for them. They must stay until then.
  awaitable<bool> add(std::string_view bytes);
  // Bytes from `offset` on, as many as `out` holds; 0 at the end.
  awaitable<std::size_t> read(std::uint64_t offset, std::string& out);

 private:
  bool write(std::string_view bytes);

  Spools& spools_;
  Bytes size_;
  int fd_ = -1;
};

}  // namespace tb
