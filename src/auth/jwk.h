// SPDX-License-Identifier: Apache-2.0
// Keys that check the signatures of JSON Web Tokens: a JSON Web Key Set (RFC 7517). Each key is for
// one algorithm, by what it is: a public key never serves as the secret of another.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct evp_pkey_st;

namespace tb::auth {

enum class Algorithm { hs256, rs256, es256, eddsa };

class VerifyKey {
 public:
  // At least 32 bytes. Throws Error{invalid}.
  static VerifyKey of_secret(std::string secret, std::string id = {});

  const std::string& id() const { return id_; }  // `kid`; empty: it has none
  Algorithm algorithm() const { return algorithm_; }
  bool verify(std::string_view text, std::string_view signature) const;

 private:
  friend struct KeyReader;
  VerifyKey() = default;
  struct Free {
    void operator()(evp_pkey_st* key) const;
  };
  std::string id_;
  Algorithm algorithm_ = Algorithm::hs256;
  std::string secret_;                         // of HS256
  std::unique_ptr<evp_pkey_st, Free> public_;  // of the others
};

class KeySet {
 public:
  // Keys of kinds and for uses that are not ours are left out, and those that are broken or weak:
  // problems() says why. Throws Error{invalid} when the text is no key set, and when none is left.
  // Without `secrets` those are left out too: nobody publishes them.
  static KeySet parse(std::string_view text, bool secrets);

  void add(VerifyKey key) { keys_.push_back(std::move(key)); }
  const std::vector<VerifyKey>& keys() const { return keys_; }
  bool has(std::string_view id) const;
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  std::vector<VerifyKey> keys_;
  std::vector<std::string> problems_;
};

}  // namespace tb::auth
