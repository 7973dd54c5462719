// SPDX-License-Identifier: Apache-2.0
#include "net/tls_layer.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "http/exchange.h"
#include "net/openssl.h"

namespace tb::net {
namespace {

constexpr std::size_t kRecord = 16 << 10;    // the most that one record holds
constexpr std::size_t kTogether = 64 << 10;  // encrypted before the kernel is called
// What a peer makes us say without reading it: answers to key updates, alerts.
constexpr std::size_t kMostPending = 256 << 10;

bool is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

bool is_empty(const http::Pieces& pieces) {
  return std::all_of(pieces.begin(), pieces.end(), [](auto piece) { return piece.empty(); });
}

// Takes up to `room` from the front of the pieces.
std::size_t take(http::Pieces& pieces, char* out, std::size_t room) {
  std::size_t taken = 0;
  for (std::string_view& piece : pieces) {
    const std::size_t part = piece.copy(out + taken, room - taken);
    piece.remove_prefix(part);
    taken += part;
  }
  return taken;
}

}  // namespace

std::string subject_of(const X509* certificate) {
  const std::unique_ptr<BIO, int (*)(BIO*)> text{::BIO_new(::BIO_s_mem()), ::BIO_free};
  TB_ASSERT(text);
  ::X509_NAME_print_ex(text.get(), ::X509_get_subject_name(certificate), 0, XN_FLAG_ONELINE);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(text.get(), &bytes);
  return {bytes, static_cast<std::size_t>(std::max(size, 0L))};
}

TlsLayer::TlsLayer(SSL_CTX* context, int fd, std::string peer, const ServerTls::OnHandshake& told)
    : ssl_(::SSL_new(context)), fd_(fd), peer_(std::move(peer)), told_(told) {
  BIO* const bio = ::BIO_new(method());
  TB_ASSERT(ssl_ && bio);
  ::BIO_set_data(bio, this);
  ::BIO_set_init(bio, 1);
  ::SSL_set_bio(ssl_.get(), bio, bio);
  ::SSL_set_accept_state(ssl_.get());
}

BIO_METHOD* TlsLayer::method() {
  static BIO_METHOD* const made = [] {
    BIO_METHOD* const fresh = ::BIO_meth_new(BIO_TYPE_SOURCE_SINK, "a connection");
    TB_ASSERT(fresh);
    ::BIO_meth_set_read(fresh, receive);
    ::BIO_meth_set_write(fresh, collect);
    ::BIO_meth_set_ctrl(fresh, control);
    return fresh;
  }();
  return made;
}

int TlsLayer::receive(BIO* bio, char* out, int size) {
  BIO_clear_retry_flags(bio);
  const auto& layer = *static_cast<TlsLayer*>(::BIO_get_data(bio));
  const ssize_t got = ::recv(layer.fd_, out, static_cast<std::size_t>(size), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(got);
}

int TlsLayer::collect(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  auto& layer = *static_cast<TlsLayer*>(::BIO_get_data(bio));
  layer.pending_.append(bytes, static_cast<std::size_t>(size));
  return size;
}

long TlsLayer::control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

// Sends what the kernel takes; true when nothing is left. Throws Disconnected.
bool TlsLayer::flush() {
  while (sent_ < pending_.size()) {
    const ssize_t sent =
        ::send(fd_, pending_.data() + sent_, pending_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == ENOBUFS) return false;
      open_ = false;
      throw http::Disconnected{};
    }
    sent_ += static_cast<std::size_t>(sent);
  }
  // An idle connection keeps no room for what it has said.
  if (!pending_.empty()) std::string{}.swap(pending_);
  sent_ = 0;
  return true;
}

// A client of plain HTTP begins with a letter, one of TLS with the number 22.
http::SecureLayer::Step TlsLayer::start() {
  char first = 0;
  const ssize_t got = ::recv(fd_, &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? Step::wait_readable : Step::ended;
  if (got == 0) return Step::ended;
  started_ = true;
  if (!is_letter(first)) return Step::done;
  if (told_) told_(peer_, "plain HTTP");
  return Step::plain;
}

http::SecureLayer::Step TlsLayer::end_handshake(const std::string& problem) {
  if (told_) told_(peer_, problem);
  return Step::ended;
}

http::SecureLayer::Step TlsLayer::handshake() {
  if (!started_) {
    const Step step = start();
    if (step != Step::done) return step;
  }
  try {
    ::ERR_clear_error();
    const int result = ::SSL_do_handshake(ssl_.get());
    const int why = ::SSL_get_error(ssl_.get(), result);
    const bool sent = flush();
    if (result != 1 && why != SSL_ERROR_WANT_READ) {
      return end_handshake(why == SSL_ERROR_SSL ? openssl_problem() : "the peer went away");
    }
    if (!sent) return Step::wait_writable;
    if (result != 1) return Step::wait_readable;
  } catch (const http::Disconnected&) {
    return end_handshake("the peer went away");
  }
  open_ = true;
  if (told_) told_(peer_, {});
  return Step::done;
}

http::SecureLayer::Step TlsLayer::read(std::span<char> out, std::size_t& got) {
  if (!open_) return Step::ended;
  ::ERR_clear_error();
  const int result = ::SSL_read_ex(ssl_.get(), out.data(), out.size(), &got);
  if (result == 1) return Step::done;
  got = 0;
  const int why = ::SSL_get_error(ssl_.get(), result);
  const bool waits = why == SSL_ERROR_WANT_READ;
  // After any other failure the library may not be called again, not even to say good-bye.
  if (!waits && why != SSL_ERROR_ZERO_RETURN) open_ = false;
  try {
    // What reading made it say: an alert, or the answer to a change of keys.
    flush();
  } catch (const http::Disconnected&) {
    return Step::ended;
  }
  return waits && pending_.size() < kMostPending ? Step::wait_readable : Step::ended;
}

void TlsLayer::encrypt(std::string_view bytes) {
  std::size_t written = 0;
  ::ERR_clear_error();
  if (open_ && ::SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &written) == 1) return;
  ::ERR_clear_error();
  open_ = false;
  throw http::Disconnected{};
}

bool TlsLayer::push(http::Pieces& pieces) {
  std::array<char, kRecord> record;
  for (;;) {
    if (!flush()) return false;
    if (is_empty(pieces)) return true;
    while (pending_.size() < kTogether && !is_empty(pieces)) {
      encrypt({record.data(), take(pieces, record.data(), record.size())});
    }
  }
}

bool TlsLayer::push_file(http::FileBytes& bytes) {
  std::array<char, kRecord> record;
  for (;;) {
    if (!flush()) return false;
    if (bytes.head.empty() && bytes.size == 0 && bytes.tail.empty()) return true;
    while (pending_.size() < kTogether) {
      http::Pieces head{bytes.head};
      std::size_t filled = take(head, record.data(), record.size());
      bytes.head = head[0];
      if (const std::size_t part = std::min<std::uint64_t>(record.size() - filled, bytes.size)) {
        const ssize_t got =
            ::pread(bytes.file, record.data() + filled, part, static_cast<off_t>(bytes.offset));
        if (got <= 0) throw http::Disconnected{};  // too short
        bytes.offset += static_cast<std::size_t>(got);
        bytes.size -= static_cast<std::size_t>(got);
        filled += static_cast<std::size_t>(got);
      }
      if (bytes.size == 0) {
        http::Pieces tail{bytes.tail};
        filled += take(tail, record.data() + filled, record.size() - filled);
        bytes.tail = tail[0];
      }
      if (filled == 0) break;
      encrypt({record.data(), filled});
    }
  }
}

void TlsLayer::close() {
  if (!std::exchange(open_, false)) return;
  ::ERR_clear_error();
  ::SSL_shutdown(ssl_.get());
  ::ERR_clear_error();
  try {
    flush();
  } catch (const http::Disconnected&) {
    // It is gone already.
  }
}

std::string TlsLayer::peer_name() const {
  const std::unique_ptr<X509, void (*)(X509*)> certificate{::SSL_get1_peer_certificate(ssl_.get()),
                                                           ::X509_free};
  return certificate ? subject_of(certificate.get()) : std::string{};
}

}  // namespace tb::net
