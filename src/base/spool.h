// SPDX-License-Identifier: Apache-2.0
// Bytes that wait on disk, in a file without a name: gone with the object, or with the process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tb {

class Spool {
 public:
  // Makes the file in `dir`, when the first bytes come.
  explicit Spool(std::string dir) : dir_(std::move(dir)) {}
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  // False: there is no room for them.
  bool add(std::string_view bytes);
  // Bytes from `offset` on, as many as `out` holds; 0 at the end.
  std::size_t read(std::uint64_t offset, std::string& out) const;

 private:
  std::string dir_;
  int fd_ = -1;
};

}  // namespace tb
