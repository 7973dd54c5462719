// SPDX-License-Identifier: Apache-2.0
#include "net/server_tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <string_view>
#include <vector>

#include "base/error.h"
#include "net/openssl.h"
#include "net/tls_layer.h"

namespace tb::net {
namespace {

// Of TLS 1.2, all with forward secrecy and authenticated; those of 1.3 are all good.
constexpr const char* kCiphers = "ECDHE+AESGCM:ECDHE+CHACHA20";
constexpr const char* kGroups = "X25519:P-256:P-384";
constexpr std::string_view kHttp = "\x08http/1.1";  // as ALPN writes it
// Sessions are kept by the clients (tickets); the name is for those with certificates.
constexpr unsigned char kSessionContext[] = "threadbox";

struct Free {
  void operator()(BIO* bio) const { ::BIO_free(bio); }
  void operator()(X509* certificate) const { ::X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { ::EVP_PKEY_free(key); }
};
using Bio = std::unique_ptr<BIO, Free>;
using Certificate = std::unique_ptr<X509, Free>;
using Key = std::unique_ptr<EVP_PKEY, Free>;

[[noreturn]] void refuse(const std::string& what) { throw Error{Code::invalid, what}; }

void expect(long good, const char* doing) {
  if (good != 1) throw Error{Code::internal, std::string{doing} + ": " + openssl_problem()};
}

Bio reader(const std::string& text) {
  Bio bio{::BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))};
  TB_ASSERT(bio);
  return bio;
}

// Nobody is there to type a passphrase.
int no_passphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

std::vector<Certificate> read_certificates(const std::string& text, const char* what) {
  const Bio bio = reader(text);
  std::vector<Certificate> all;
  ::ERR_clear_error();
  while (X509* const one = ::PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    all.emplace_back(one);
  }
  const bool at_end = ERR_GET_REASON(::ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string problem = openssl_problem();
  if (!at_end) refuse(what + (" can't be read: " + problem));
  if (all.empty()) refuse(what + std::string{": there is no certificate in it (PEM)"});
  return all;
}

Key read_key(const std::string& text) {
  if (text.find("PRIVATE KEY-----") == text.npos) refuse("there is no key in its file (PEM)");
  const Bio bio = reader(text);
  bool asked = false;
  ::ERR_clear_error();
  Key key{::PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, &asked)};
  if (asked) refuse("the key has a passphrase: a server needs one without");
  if (key) return key;
  refuse("the key can't be read: " + openssl_problem());
}

// HTTP/1.1, or nothing for who can't say what it wants; who wants only something else is told so.
int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* size,
                    const unsigned char* offered, unsigned offered_size, void*) {
  unsigned char* found = nullptr;
  const int result =
      ::SSL_select_next_proto(&found, size, reinterpret_cast<const unsigned char*>(kHttp.data()),
                              static_cast<unsigned>(kHttp.size()), offered, offered_size);
  if (result != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

std::shared_ptr<SSL_CTX> make_context() {
  start_openssl();
  std::shared_ptr<SSL_CTX> made{::SSL_CTX_new(::TLS_server_method()), ::SSL_CTX_free};
  TB_ASSERT(made);
  SSL_CTX* const context = made.get();
  expect(SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION), "TLS 1.2 at least");
  expect(::SSL_CTX_set_cipher_list(context, kCiphers), "ciphers");
  expect(SSL_CTX_set1_groups_list(context, kGroups), "groups");
  ::SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
  // Idle connections give their buffers back, and a record is read by one call.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  expect(::SSL_CTX_set_session_id_context(context, kSessionContext, sizeof kSessionContext),
         "session context");
  ::SSL_CTX_set_alpn_select_cb(context, choose_protocol, nullptr);
  return made;
}

void show(SSL_CTX* context, const Identity& identity, std::vector<Certificate>& chain) {
  const Key key = read_key(identity.key);
  ::ERR_clear_error();
  if (::SSL_CTX_use_certificate(context, chain[0].get()) != 1) {
    refuse("the certificate can't be used: " + openssl_problem());
  }
  if (::X509_check_private_key(chain[0].get(), key.get()) != 1) {
    ::ERR_clear_error();
    refuse("the key does not belong to the certificate");
  }
  if (::SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
    refuse("the key can't be used: " + openssl_problem());
  }
  for (std::size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1) {
      refuse("certificate " + std::to_string(i + 1) + " can't be used: " + openssl_problem());
    }
  }
}

void ask_clients(SSL_CTX* context, const Identity& identity) {
  if (identity.client_authorities.empty()) return;
  X509_STORE* const store = ::SSL_CTX_get_cert_store(context);
  for (const Certificate& one :
       read_certificates(identity.client_authorities, "the authorities of clients")) {
    expect(::X509_STORE_add_cert(store, one.get()), "an authority of clients");
    expect(::SSL_CTX_add_client_CA(context, one.get()), "an authority of clients");
  }
  const int required = identity.client_required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0;
  ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER | required, nullptr);
}

std::chrono::system_clock::time_point end_of(const X509* certificate) {
  std::tm when{};
  if (::ASN1_TIME_to_tm(::X509_get0_notAfter(certificate), &when) != 1) {
    refuse("the certificate has no end that could be read");
  }
  return std::chrono::system_clock::from_time_t(::timegm(&when));
}

}  // namespace

ServerTls::ServerTls(const Identity& identity) { change(identity); }

ServerTls::~ServerTls() = default;

void ServerTls::change(const Identity& identity) {
  std::shared_ptr<SSL_CTX> context = make_context();
  std::vector<Certificate> chain = read_certificates(identity.certificate, "the certificate");
  show(context.get(), identity, chain);
  ask_clients(context.get(), identity);
  expires_ = end_of(chain[0].get());
  subject_ = subject_of(chain[0].get());
  context_ = std::move(context);
}

std::unique_ptr<http::SecureLayer> ServerTls::wrap(int fd, const std::string& peer) {
  return std::make_unique<TlsLayer>(context_.get(), fd, peer, on_handshake_);
}

}  // namespace tb::net
