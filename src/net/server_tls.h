// SPDX-License-Identifier: Apache-2.0
// TLS of the server's own port: its certificate, which may change while it runs, and the layer of
// each connection. TLS 1.2 and 1.3, forward secrecy only, HTTP/1.1 by ALPN.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "http/secure_layer.h"

typedef struct ssl_ctx_st SSL_CTX;  // of <openssl/ssl.h>

namespace tb::net {

// What a server shows and asks for, as the texts of PEM files.
struct Identity {
  std::string certificate;              // its own first, then those between it and the authority
  std::string key;                      // without a passphrase
  std::string client_authorities = {};  // clients are asked for a certificate of these; empty: not
  bool client_required = true;          // and who has none is refused
};

class ServerTls {
 public:
  // Told of each handshake: what was wrong, and nothing when it was good.
  using OnHandshake = std::function<void(const std::string& peer, const std::string& problem)>;

  // Throws Error{invalid} that says what is wrong with it.
  explicit ServerTls(const Identity& identity);
  ~ServerTls();

  // From the next connection on; those that there are go on as they began. Throws as the
  // constructor does, and all stays as it was.
  void change(const Identity& identity);
  void on_handshake(OnHandshake callback) { on_handshake_ = std::move(callback); }

  // The layer must not outlive this.
  std::unique_ptr<http::SecureLayer> wrap(int fd, const std::string& peer);

  // When the certificate ends, and what it is for: "CN = example.org".
  std::chrono::system_clock::time_point expires() const { return expires_; }
  const std::string& subject() const { return subject_; }

 private:
  std::shared_ptr<SSL_CTX> context_;
  std::chrono::system_clock::time_point expires_;
  std::string subject_;
  OnHandshake on_handshake_;
};

}  // namespace tb::net
