// SPDX-License-Identifier: Apache-2.0
// What all uses of OpenSSL share.
#pragma once

#include <string>

namespace tb::net {

// Before the first use of the library; again is fine. Its configuration is not read: that may name
// modules to load, which a static program can't.
void start_openssl();

// What the library says about its last failure in this thread, and forgets it.
std::string openssl_problem();

}  // namespace tb::net
