// SPDX-License-Identifier: Apache-2.0
// For tests: an identity provider with a key of each kind.
#pragma once

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <boost/json.hpp>
#include <memory>
#include <string>

#include "auth/base64url.h"
#include "base/error.h"

namespace tb::auth {

class TestSigner {
 public:
  // "RS256", "ES256", "EdDSA" or "HS256".
  explicit TestSigner(std::string algorithm, std::string id = "k1")
      : algorithm_(std::move(algorithm)), id_(std::move(id)) {
    if (algorithm_ == "RS256") key_.reset(EVP_RSA_gen(2048));
    if (algorithm_ == "ES256") key_.reset(EVP_EC_gen("P-256"));
    if (algorithm_ == "EdDSA") key_.reset(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
    TB_ASSERT(key_ || algorithm_ == "HS256");
  }

  boost::json::object public_key() const {
    boost::json::object key{{"kid", id_}, {"alg", algorithm_}, {"use", "sig"}};
    if (algorithm_ == "RS256") {
      key["kty"] = "RSA";
      key["n"] = number(OSSL_PKEY_PARAM_RSA_N, 0);
      key["e"] = number(OSSL_PKEY_PARAM_RSA_E, 0);
    } else if (algorithm_ == "ES256") {
      key["kty"] = "EC";
      key["crv"] = "P-256";
      key["x"] = number(OSSL_PKEY_PARAM_EC_PUB_X, 32);
      key["y"] = number(OSSL_PKEY_PARAM_EC_PUB_Y, 32);
    } else if (algorithm_ == "EdDSA") {
      std::string raw(32, '\0');
      std::size_t size = raw.size();
      EVP_PKEY_get_raw_public_key(key_.get(), reinterpret_cast<unsigned char*>(raw.data()), &size);
      key["kty"] = "OKP";
      key["crv"] = "Ed25519";
      key["x"] = base64url(raw);
    } else {
      key["kty"] = "oct";
      key["k"] = base64url(secret_);
    }
    return key;
  }

  std::string key_set() const {
    boost::json::object set;
    set["keys"] = boost::json::array{public_key()};
    return boost::json::serialize(set);
  }

  std::string sign(const boost::json::object& claims) const {
    return sign_text(boost::json::serialize(
                         boost::json::object{{"alg", algorithm_}, {"kid", id_}, {"typ", "JWT"}}),
                     boost::json::serialize(claims));
  }

  // Head and claims as they are, whatever they say.
  std::string sign_text(const std::string& head, const std::string& claims) const {
    const std::string text = base64url(head) + "." + base64url(claims);
    return text + "." + base64url(signature(text));
  }

  const std::string& secret() const { return secret_; }

 private:
  std::string number(const char* name, int size) const {
    BIGNUM* value = nullptr;
    TB_ASSERT(EVP_PKEY_get_bn_param(key_.get(), name, &value) == 1);
    std::string bytes(static_cast<std::size_t>(size ? size : BN_num_bytes(value)), '\0');
    BN_bn2binpad(value, reinterpret_cast<unsigned char*>(bytes.data()),
                 static_cast<int>(bytes.size()));
    BN_free(value);
    return base64url(bytes);
  }

  std::string signature(const std::string& text) const {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    std::string made(1024, '\0');
    auto* out = reinterpret_cast<unsigned char*>(made.data());
    if (algorithm_ == "HS256") {
      unsigned size = 0;
      HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()), bytes, text.size(), out,
           &size);
      made.resize(size);
      return made;
    }
    std::size_t size = made.size();
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    const EVP_MD* hash = algorithm_ == "EdDSA" ? nullptr : EVP_sha256();
    EVP_DigestSignInit(context, nullptr, hash, nullptr, key_.get());
    TB_ASSERT(EVP_DigestSign(context, out, &size, bytes, text.size()) == 1);
    EVP_MD_CTX_free(context);
    made.resize(size);
    if (algorithm_ != "ES256") return made;
    const auto* der = reinterpret_cast<const unsigned char*>(made.data());
    ECDSA_SIG* pair = d2i_ECDSA_SIG(nullptr, &der, static_cast<long>(size));
    std::string halves(64, '\0');
    BN_bn2binpad(ECDSA_SIG_get0_r(pair), reinterpret_cast<unsigned char*>(halves.data()), 32);
    BN_bn2binpad(ECDSA_SIG_get0_s(pair), reinterpret_cast<unsigned char*>(halves.data()) + 32, 32);
    ECDSA_SIG_free(pair);
    return halves;
  }

  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  };
  std::string algorithm_;
  std::string id_;
  std::string secret_ = "a secret of more than thirty-two bytes";
  std::unique_ptr<EVP_PKEY, Free> key_;
};

}  // namespace tb::auth
