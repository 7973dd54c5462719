// SPDX-License-Identifier: Apache-2.0
#include "os/fault.h"

namespace tb::os {
namespace {

unsigned countdown = 0;

}  // namespace

void fail_attempt(unsigned n) { countdown = n; }

bool attempt_must_fail() { return countdown != 0 && --countdown == 0; }

}  // namespace tb::os
