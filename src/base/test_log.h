// SPDX-License-Identifier: Apache-2.0
// For tests: what is logged, as text.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "base/error.h"
#include "base/log.h"

namespace tb {

// What is written to standard error while it lives; no more than a pipe holds (64 KiB).
class CapturedLog {
 public:
  CapturedLog(LogLevel level, bool json) {
    set_log(level, json);
    int ends[2];
    check(::pipe2(ends, O_CLOEXEC), "pipe2");
    saved_ = check(::fcntl(2, F_DUPFD_CLOEXEC, 10), "save stderr");
    check(::dup2(ends[1], 2), "dup2");
    ::close(ends[1]);
    read_ = ends[0];
  }
  ~CapturedLog() {
    if (saved_ >= 0) text();
    set_log(LogLevel::info, false);
  }
  // Ends it.
  std::string text() {
    ::dup2(saved_, 2);
    ::close(saved_);
    saved_ = -1;
    std::string all;
    char buffer[4096];
    for (ssize_t n; (n = ::read(read_, buffer, sizeof buffer)) > 0;) {
      all.append(buffer, static_cast<std::size_t>(n));
    }
    ::close(read_);
    return all;
  }

 private:
  int saved_;
  int read_;
};

}  // namespace tb
