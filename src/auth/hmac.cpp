// SPDX-License-Identifier: Apache-2.0
#include "auth/hmac.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/error.h"

namespace tb::auth {

std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::string digest(32, '\0');
  unsigned size = 0;
  const auto* made = ::HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                            reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                            reinterpret_cast<unsigned char*>(digest.data()), &size);
  TB_ASSERT(made && size == digest.size());
  return digest;
}

bool same_bytes(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace tb::auth
