// SPDX-License-Identifier: Apache-2.0
#include "auth/jwk.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#include <algorithm>
#include <boost/json.hpp>

#include "auth/base64url.h"
#include "auth/hmac.h"
#include "base/error.h"

namespace tb::auth {
namespace json = boost::json;
namespace {

constexpr std::size_t kMaxKeys = 100;
constexpr std::size_t kMaxId = 256;
constexpr int kLeastRsa = 2048;  // bits
constexpr int kMostRsa = 8192;

template <auto Function>
struct Release {
  template <class T>
  void operator()(T* what) const {
    Function(what);
  }
};
using Bignum = std::unique_ptr<BIGNUM, Release<BN_free>>;
using Builder = std::unique_ptr<OSSL_PARAM_BLD, Release<OSSL_PARAM_BLD_free>>;
using Params = std::unique_ptr<OSSL_PARAM, Release<OSSL_PARAM_free>>;
using Context = std::unique_ptr<EVP_PKEY_CTX, Release<EVP_PKEY_CTX_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, Release<EVP_MD_CTX_free>>;
using Signature = std::unique_ptr<ECDSA_SIG, Release<ECDSA_SIG_free>>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

[[noreturn]] void refuse(const std::string& why) {
  ERR_clear_error();
  throw Error{Code::invalid, why};
}

std::string text_of(const json::object& key, const char* name) {
  const json::value* value = key.if_contains(name);
  return value && value->is_string() ? std::string{value->get_string()} : std::string{};
}

std::string bytes_of(const json::object& key, const char* name) {
  auto bytes = from_base64url(text_of(key, name));
  if (!bytes || bytes->empty()) refuse(std::string{"\""} + name + "\" of a key is no base64url");
  return std::move(*bytes);
}

Bignum number_of(const std::string& bytes) {
  return Bignum{BN_bin2bn(bytes_of(bytes), static_cast<int>(bytes.size()), nullptr)};
}

EVP_PKEY* build(const char* kind, OSSL_PARAM_BLD* builder) {
  const Params params{OSSL_PARAM_BLD_to_param(builder)};
  const Context context{EVP_PKEY_CTX_new_from_name(nullptr, kind, nullptr)};
  EVP_PKEY* key = nullptr;
  if (!params || !context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, params.get()) != 1) {
    refuse(std::string{"a key of kind "} + kind + " is broken");
  }
  return key;
}

EVP_PKEY* rsa_key(const json::object& key) {
  const std::string n = bytes_of(key, "n");
  const std::string e = bytes_of(key, "e");
  if (n.size() * 8 > kMostRsa || e.size() > 8) refuse("an RSA key is too large");
  const Bignum modulus = number_of(n);
  const Bignum exponent = number_of(e);
  if (BN_num_bits(modulus.get()) < kLeastRsa) refuse("an RSA key has less than 2048 bits");
  if (!BN_is_odd(exponent.get()) || BN_is_one(exponent.get())) {
    refuse("an RSA key has a bad exponent");
  }
  const Builder builder{OSSL_PARAM_BLD_new()};
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, modulus.get());
  OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, exponent.get());
  return build("RSA", builder.get());
}

EVP_PKEY* ec_key(const json::object& key) {
  const std::string x = bytes_of(key, "x");
  const std::string y = bytes_of(key, "y");
  if (x.size() != 32 || y.size() != 32) refuse("a key on P-256 has coordinates of 32 bytes");
  const std::string point = '\x04' + x + y;
  const Builder builder{OSSL_PARAM_BLD_new()};
  OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0);
  OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                   point.size());
  EVP_PKEY* made = build("EC", builder.get());
  const Context context{EVP_PKEY_CTX_new_from_pkey(nullptr, made, nullptr)};
  if (!context || EVP_PKEY_public_check(context.get()) != 1) {
    EVP_PKEY_free(made);
    refuse("a key is no point of P-256");
  }
  return made;
}

EVP_PKEY* ed_key(const json::object& key) {
  const std::string x = bytes_of(key, "x");
  EVP_PKEY* made = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes_of(x), x.size());
  if (x.size() != 32 || !made) refuse("a key of Ed25519 has 32 bytes");
  return made;
}

// DER of the two halves that a token has side by side.
std::string to_der(std::string_view signature) {
  if (signature.size() != 64) return {};
  const Signature pair{ECDSA_SIG_new()};
  BIGNUM* r = BN_bin2bn(bytes_of(signature), 32, nullptr);
  BIGNUM* s = BN_bin2bn(bytes_of(signature) + 32, 32, nullptr);
  ECDSA_SIG_set0(pair.get(), r, s);  // they are its own now
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(pair.get(), &der);
  std::string text;
  if (size > 0) text.assign(reinterpret_cast<char*>(der), static_cast<std::size_t>(size));
  OPENSSL_free(der);
  return text;
}

bool verify_public(EVP_PKEY* key, const EVP_MD* hash, std::string_view text,
                   std::string_view signature) {
  const DigestContext context{EVP_MD_CTX_new()};
  const bool good = EVP_DigestVerifyInit(context.get(), nullptr, hash, nullptr, key) == 1 &&
                    EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(),
                                     bytes_of(text), text.size()) == 1;
  if (!good) ERR_clear_error();
  return good;
}

// Which of ours it is; empty: none.
std::optional<Algorithm> kind_of(const json::object& key) {
  const std::string type = text_of(key, "kty");
  const std::string curve = text_of(key, "crv");
  if (type == "oct") return Algorithm::hs256;
  if (type == "RSA") return Algorithm::rs256;
  if (type == "EC" && curve == "P-256") return Algorithm::es256;
  if (type == "OKP" && curve == "Ed25519") return Algorithm::eddsa;
  return std::nullopt;
}

bool is_for(const json::object& key, Algorithm algorithm) {
  constexpr const char* kNames[] = {"HS256", "RS256", "ES256", "EdDSA"};
  const std::string use = text_of(key, "use");
  const std::string name = text_of(key, "alg");
  return (use.empty() || use == "sig") &&
         (name.empty() || name == kNames[static_cast<int>(algorithm)]);
}

}  // namespace

void VerifyKey::Free::operator()(evp_pkey_st* key) const { EVP_PKEY_free(key); }

VerifyKey VerifyKey::of_secret(std::string secret, std::string id) {
  if (secret.size() < 32) refuse("a secret for HS256 has at least 32 bytes");
  VerifyKey key;
  key.id_ = std::move(id);
  key.secret_ = std::move(secret);
  return key;
}

bool VerifyKey::verify(std::string_view text, std::string_view signature) const {
  switch (algorithm_) {
    case Algorithm::hs256: return same_bytes(signature, hmac_sha256(secret_, text));
    case Algorithm::rs256: return verify_public(public_.get(), EVP_sha256(), text, signature);
    case Algorithm::es256: {
      const std::string der = to_der(signature);
      return !der.empty() && verify_public(public_.get(), EVP_sha256(), text, der);
    }
    case Algorithm::eddsa: return verify_public(public_.get(), nullptr, text, signature);
  }
  return false;
}

// Makes one key of what stands in a set.
struct KeyReader {
  static VerifyKey read(const json::object& key, Algorithm algorithm) {
    std::string id = text_of(key, "kid");
    if (id.size() > kMaxId) refuse("a \"kid\" is longer than 256 bytes");
    if (algorithm == Algorithm::hs256) {
      return VerifyKey::of_secret(bytes_of(key, "k"), std::move(id));
    }
    VerifyKey made;
    made.id_ = std::move(id);
    made.algorithm_ = algorithm;
    if (algorithm == Algorithm::rs256) made.public_.reset(rsa_key(key));
    if (algorithm == Algorithm::es256) made.public_.reset(ec_key(key));
    if (algorithm == Algorithm::eddsa) made.public_.reset(ed_key(key));
    return made;
  }
};

// One that is broken keeps nobody out who has another: providers publish what others need, too.
KeySet KeySet::parse(std::string_view text, bool secrets) {
  boost::system::error_code failed;
  const json::value value = json::parse({text.data(), text.size()}, failed);
  const json::object* set = failed ? nullptr : value.if_object();
  const json::value* list = set ? set->if_contains("keys") : nullptr;
  if (!list || !list->is_array()) refuse("it is no JSON Web Key Set");
  if (list->get_array().size() > kMaxKeys) refuse("it has more than 100 keys");
  KeySet all;
  for (const json::value& item : list->get_array()) {
    const json::object* key = item.if_object();
    const auto algorithm = key ? kind_of(*key) : std::nullopt;
    if (!algorithm || !is_for(*key, *algorithm)) continue;
    if (*algorithm == Algorithm::hs256 && !secrets) continue;
    try {
      all.add(KeyReader::read(*key, *algorithm));
    } catch (const Error& error) {
      all.problems_.emplace_back(error.what());
    }
  }
  if (!all.keys_.empty()) return all;
  refuse(all.problems_.empty() ? "it has no key for RS256, ES256 or EdDSA" : all.problems_.front());
}

bool KeySet::has(std::string_view id) const {
  return std::any_of(keys_.begin(), keys_.end(),
                     [&](const VerifyKey& key) { return key.id() == id; });
}

}  // namespace tb::auth
