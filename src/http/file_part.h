// SPDX-License-Identifier: Apache-2.0
// Bytes of a file, sent without being read.
#pragma once

#include <cstdint>
#include <string_view>

namespace tb::http {

// `head` and then `size` bytes of `file` from `offset` on, `tail` behind them. The file must be as
// long as that, and open until all is sent.
struct FileBytes {
  std::string_view head;
  int file = -1;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::string_view tail;
};

// Sends what the kernel takes at once, and shortens `bytes` by that; true when that was all.
// Throws Disconnected, also when the file is too short.
bool push_file(int socket, FileBytes& bytes);

}  // namespace tb::http
