// SPDX-License-Identifier: Apache-2.0
// Finds the end of a request head and refuses, line by line as they arrive, what a lenient parser
// might read in a second way: bare LF, bare CR, NUL, folded lines, a space before the colon.
#pragma once

#include <cstddef>
#include <string_view>

#include "http/limits.h"

namespace tb::http {

class HeadScanner {
 public:
  explicit HeadScanner(const HeadLimits& limits) : limits_(limits) {}

  // `bytes` is all of the head that has arrived, from its first byte on; each call may bring more.
  // Returns the size of the head with its empty line, or 0 while that is not there. Looks at each
  // byte once over all calls. Throws HttpError 400, 414, 431 or 505.
  std::size_t scan(std::string_view bytes);

  // The number of header lines so far.
  std::size_t fields() const { return fields_; }

  void reset();

 private:
  void check_line(std::string_view line);
  void check_unfinished(std::string_view bytes) const;

  HeadLimits limits_;
  std::size_t line_start_ = 0;
  std::size_t scanned_ = 0;
  std::size_t fields_ = 0;
  bool in_fields_ = false;
};

}  // namespace tb::http
