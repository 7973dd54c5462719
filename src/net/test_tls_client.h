// SPDX-License-Identifier: Apache-2.0
// For tests: a client of TLS that does as it is told.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>

#include "http/test_server.h"
#include "net/openssl.h"
#include "net/test_certificate.h"

namespace tb::net {

struct ClientOptions {
  int least = TLS1_2_VERSION;
  int most = TLS1_3_VERSION;
  std::string ciphers = {};    // of TLS 1.2
  std::string protocols = {};  // as ALPN writes them
  const TestCertificate* certificate = nullptr;
};

// A client that blocks, for five seconds at most, and trusts everybody.
class TlsWire {
 public:
  explicit TlsWire(std::uint16_t port, const ClientOptions& options = {}) : wire_(port) {
    start_openssl();
    context_.reset(::SSL_CTX_new(::TLS_client_method()));
    SSL_CTX* const context = context_.get();
    ::SSL_CTX_set_security_level(context, 0);
    SSL_CTX_set_min_proto_version(context, options.least);
    SSL_CTX_set_max_proto_version(context, options.most);
    if (!options.ciphers.empty()) ::SSL_CTX_set_cipher_list(context, options.ciphers.c_str());
    if (!options.protocols.empty()) {
      ::SSL_CTX_set_alpn_protos(context,
                                reinterpret_cast<const unsigned char*>(options.protocols.data()),
                                static_cast<unsigned>(options.protocols.size()));
    }
    if (options.certificate) {
      ::SSL_CTX_use_certificate(context, options.certificate->get());
      ::SSL_CTX_use_PrivateKey(context, options.certificate->key().get());
    }
    ssl_.reset(::SSL_new(context));
    ::SSL_set_fd(ssl_.get(), wire_.fd());
    ::ERR_clear_error();
    connected_ = ::SSL_connect(ssl_.get()) == 1;
    if (!connected_) problem_ = openssl_problem();
  }

  bool connected() const { return connected_; }
  const std::string& problem() const { return problem_; }
  SSL* get() const { return ssl_.get(); }
  http::Wire& wire() { return wire_; }

  bool send(std::string_view bytes) {
    return ::SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) > 0;
  }
  // Everything up to the end; `orderly` tells whether that had a good-bye.
  std::string read_to_end() {
    std::string text;
    char bytes[16 << 10];
    int got = 0;
    ::ERR_clear_error();
    while ((got = ::SSL_read(ssl_.get(), bytes, sizeof bytes)) > 0) {
      text.append(bytes, static_cast<std::size_t>(got));
    }
    orderly = ::SSL_get_error(ssl_.get(), got) == SSL_ERROR_ZERO_RETURN;
    if (!orderly) problem_ = openssl_problem();
    return text;
  }
  std::string read_until(std::string_view mark) {
    std::string text;
    char byte = 0;
    while (text.find(mark) == text.npos && ::SSL_read(ssl_.get(), &byte, 1) == 1) text += byte;
    return text;
  }
  std::string certificate_name() const {
    const std::unique_ptr<X509, void (*)(X509*)> shown{::SSL_get1_peer_certificate(ssl_.get()),
                                                       ::X509_free};
    char text[100] = {};
    if (shown) ::X509_NAME_oneline(::X509_get_subject_name(shown.get()), text, sizeof text);
    return text;
  }
  bool orderly = false;

 private:
  struct Free {
    void operator()(SSL* ssl) const { ::SSL_free(ssl); }
    void operator()(SSL_CTX* context) const { ::SSL_CTX_free(context); }
  };
  http::Wire wire_;
  std::unique_ptr<SSL_CTX, Free> context_;
  std::unique_ptr<SSL, Free> ssl_;
  bool connected_ = false;
  std::string problem_;
};

}  // namespace tb::net
