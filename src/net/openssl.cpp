// SPDX-License-Identifier: Apache-2.0
#include "net/openssl.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/error.h"

namespace tb::net {

void start_openssl() {
  static const bool started = ::OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr) == 1;
  TB_ASSERT(started);
}

std::string openssl_problem() {
  const unsigned long number = ::ERR_peek_last_error();
  ::ERR_clear_error();
  const char* const reason = ::ERR_reason_error_string(number);
  return reason ? reason : "error " + std::to_string(number);
}

}  // namespace tb::net
