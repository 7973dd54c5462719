// SPDX-License-Identifier: Apache-2.0
// For tests: keys and certificates, as PEM.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "base/error.h"

namespace tb::net {

class TestKey {
 public:
  TestKey() : key_(EVP_EC_gen("P-256"), ::EVP_PKEY_free) { TB_ASSERT(key_); }
  EVP_PKEY* get() const { return key_.get(); }
  std::string pem(const char* passphrase = nullptr) const {
    return written([&](BIO* out) {
      auto* const phrase = reinterpret_cast<const unsigned char*>(passphrase);
      const int size =
          passphrase ? static_cast<int>(std::char_traits<char>::length(passphrase)) : 0;
      const EVP_CIPHER* const cipher = passphrase ? ::EVP_aes_128_cbc() : nullptr;
      return ::PEM_write_bio_PrivateKey(out, key_.get(), cipher, phrase, size, nullptr, nullptr);
    });
  }

  template <class Write>
  static std::string written(Write write) {
    const std::unique_ptr<BIO, int (*)(BIO*)> out{::BIO_new(::BIO_s_mem()), ::BIO_free};
    TB_ASSERT(write(out.get()) == 1);
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(out.get(), &bytes);
    return {bytes, static_cast<std::size_t>(size)};
  }

 private:
  std::shared_ptr<EVP_PKEY> key_;
};

// Of `name`, for a day; signed by `issuer`, or by itself.
class TestCertificate {
 public:
  explicit TestCertificate(const std::string& name, const TestCertificate* issuer = nullptr)
      : certificate_(::X509_new(), ::X509_free) {
    X509* const made = certificate_.get();
    ::X509_set_version(made, 2);
    ::ASN1_INTEGER_set(::X509_get_serialNumber(made), 1);
    ::X509_gmtime_adj(::X509_getm_notBefore(made), -3600);
    ::X509_gmtime_adj(::X509_getm_notAfter(made), 24 * 3600);
    ::X509_NAME_add_entry_by_txt(::X509_get_subject_name(made), "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
    const TestCertificate& by = issuer ? *issuer : *this;
    ::X509_set_issuer_name(made, ::X509_get_subject_name(by.certificate_.get()));
    ::X509_set_pubkey(made, key_.get());
    if (!issuer) allow_signing();
    TB_ASSERT(::X509_sign(made, by.key_.get(), ::EVP_sha256()) > 0);
  }
  const TestKey& key() const { return key_; }
  X509* get() const { return certificate_.get(); }
  std::string pem() const {
    return TestKey::written(
        [&](BIO* out) { return ::PEM_write_bio_X509(out, certificate_.get()); });
  }

 private:
  void allow_signing() {
    X509_EXTENSION* const right =
        ::X509V3_EXT_conf_nid(nullptr, nullptr, NID_basic_constraints, "critical,CA:TRUE");
    TB_ASSERT(right && ::X509_add_ext(certificate_.get(), right, -1) == 1);
    ::X509_EXTENSION_free(right);
  }

  TestKey key_;
  std::shared_ptr<X509> certificate_;
};

}  // namespace tb::net
