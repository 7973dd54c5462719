// SPDX-License-Identifier: Apache-2.0
// What may stand between a connection and its socket: TLS, which is in net/server_tls.h.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "http/file_part.h"
#include "http/pieces.h"

namespace tb::http {

// Of one connection. Never waits: it says what to wait for, and is called again.
class SecureLayer {
 public:
  enum class Step {
    done,
    wait_readable,
    wait_writable,
    plain,  // The peer speaks, but not this: nothing was taken from the socket.
    ended,  // There is nobody, or nobody who could be understood.
  };
  virtual ~SecureLayer() = default;

  virtual Step handshake() = 0;
  // `got` is more than 0 if `done`. A peer that ends without a good-bye has ended, too: what is
  // missing shows in the message itself.
  virtual Step read(std::span<char> out, std::size_t& got) = 0;
  // As push_pieces() and push_file() do.
  virtual bool push(Pieces& pieces) = 0;
  virtual bool push_file(FileBytes& bytes) = 0;
  // Says good-bye, if the kernel takes it at once. The last call.
  virtual void close() = 0;
  // Who the peer has shown to be, by its certificate; empty: nobody.
  virtual std::string peer_name() const = 0;
};

// How a listener's connections are secured.
struct Secure {
  // `fd` stays the connection's; `peer` is its address. Empty: they are not.
  std::function<std::unique_ptr<SecureLayer>(int fd, const std::string& peer)> wrap;
  std::string hsts;  // the value of Strict-Transport-Security; empty: it is not sent
};

}  // namespace tb::http
