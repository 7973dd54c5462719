// SPDX-License-Identifier: Apache-2.0
// The door through which the jail's system calls go, so that a test can fail the n-th of them.
#pragma once

#include <string_view>

#include "base/error.h"

namespace tb::os {

// The n-th attempt() from now fails with EIO; 0 means none. A forked child goes on counting.
void fail_attempt(unsigned n);
bool attempt_must_fail();

// Runs a system call and passes its result through; throws SystemError "doing: reason" on -1.
template <class Call>
auto attempt(std::string_view doing, Call call) {
  if (attempt_must_fail()) throw SystemError{EIO, std::string{doing}};
  return check(call(), doing);
}

}  // namespace tb::os
