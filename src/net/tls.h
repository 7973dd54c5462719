// SPDX-License-Identifier: Apache-2.0
// TLS to a receiver: its certificate must be good, and for the host that is meant.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <memory>
#include <string>

#include "net/url.h"

namespace tb::net {

using TlsStream = boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>;

class Tls {
 public:
  // Trusts the certificates of `authorities` (PEM); throws Error{invalid} when there are none in
  // it. Empty: those of the system, which are read when they are needed first. `setting` is the one
  // that names them, for who has none.
  explicit Tls(const std::string& authorities, std::string setting = "WEBHOOK_CA_FILE");

  // Throws Error{unavailable} when this machine has no certificates to trust.
  std::unique_ptr<TlsStream> wrap(boost::asio::ip::tcp::socket& socket, const Url& url);
  // Throws Error{unavailable} that says what is wrong with the certificate.
  boost::asio::awaitable<void> handshake(TlsStream& stream);

 private:
  void load_system();

  boost::asio::ssl::context context_;
  std::string setting_;
  bool loaded_ = false;
};

}  // namespace tb::net
