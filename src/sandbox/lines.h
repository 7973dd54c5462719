// SPDX-License-Identifier: Apache-2.0
// Lines of a file, without holding more of it than is asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sandbox/files.h"

namespace tb::sandbox {

struct LineRange {
  std::uint64_t first = 1;           // from 1
  std::uint64_t count = UINT64_MAX;  // at most
  Bytes most = 8_MiB;                // of text
  Bytes counted = 64_MiB;            // so much of the file is looked at for its number of lines
};

struct Lines {
  std::string text;                      // with the ends of lines
  std::uint64_t first = 1;               // as asked for
  std::uint64_t count = 0;               // in `text`
  std::optional<std::uint64_t> total{};  // of the file; empty: it is too large to count
  bool more = false;                     // lines follow
  bool cut = false;  // the last one is longer than may be had at once: read it by its bytes
};

// A last line without an end is a line.
awaitable<Lines> read_lines(OpenFile& file, LineRange range);

}  // namespace tb::sandbox
