// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tb {

std::string_view name_of(Code code) {
  switch (code) {
    case Code::invalid: return "invalid";
    case Code::not_found: return "not_found";
    case Code::conflict: return "conflict";
    case Code::limited: return "limited";
    case Code::exhausted: return "exhausted";
    case Code::unavailable: return "unavailable";
    case Code::internal: return "internal";
  }
  return "internal";
}

namespace {

Code code_of(int number) {
  switch (number) {
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN: return Code::exhausted;
    default: return Code::internal;
  }
}

}  // namespace

SystemError::SystemError(int number, const std::string& doing)
    : Error(code_of(number), doing + ": " + std::strerror(number)), number_(number) {}

void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "threadbox: %s:%d: assertion failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace tb
