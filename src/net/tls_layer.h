// SPDX-License-Identifier: Apache-2.0
// TLS of one connection of the server, between its socket and HTTP.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "http/secure_layer.h"
#include "net/server_tls.h"

namespace tb::net {

// The distinguished name of whom it was made for: "CN = example.org, O = Example".
std::string subject_of(const X509* certificate);

// What is to be sent is encrypted into a buffer first, so that many records leave by one call of
// the kernel, and a write that waits needs nothing of the library.
class TlsLayer final : public http::SecureLayer {
 public:
  TlsLayer(SSL_CTX* context, int fd, std::string peer, const ServerTls::OnHandshake& told);

  Step handshake() override;
  Step read(std::span<char> out, std::size_t& got) override;
  bool push(http::Pieces& pieces) override;
  bool push_file(http::FileBytes& bytes) override;
  void close() override;
  std::string peer_name() const override;

 private:
  struct Free {
    void operator()(SSL* ssl) const { ::SSL_free(ssl); }
  };
  static BIO_METHOD* method();
  static int receive(BIO* bio, char* out, int size);
  static int collect(BIO* bio, const char* bytes, int size);
  static long control(BIO* bio, int command, long number, void* pointer);

  Step start();
  Step end_handshake(const std::string& problem);
  bool flush();
  void encrypt(std::string_view bytes);

  std::unique_ptr<SSL, Free> ssl_;
  int fd_;
  std::string peer_;
  const ServerTls::OnHandshake& told_;
  std::string pending_;   // encrypted, not yet sent
  std::size_t sent_ = 0;  // of it
  bool started_ = false;  // the first byte was looked at
  bool open_ = false;     // the handshake is over, and nothing has failed since
};

}  // namespace tb::net
