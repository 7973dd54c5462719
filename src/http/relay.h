// SPDX-License-Identifier: Apache-2.0
// Passes a request on to another server and its answer back, byte for byte and without holding a
// body: uploads, downloads, streams, and whatever follows a 101.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/client.h"
#include "http/exchange.h"

namespace tb::http {

class Link;

// Connections to other servers that are kept for the next request. One thread.
class Relay {
 public:
  explicit Relay(boost::asio::any_io_executor executor, Milliseconds connect = 2s);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // One request on its way. Must not outlive the exchange or the relay.
  class Passage {
   public:
    Passage(Relay& relay, Exchange& exchange);
    ~Passage();
    Passage(const Passage&) = delete;
    Passage& operator=(const Passage&) = delete;

    // Connects and sends the request: its head, `begun`, which was read of its body already, and
    // the rest as it comes. Throws Error{unavailable} when nobody answers there: nothing was sent.
    awaitable<void> send(const Endpoint& endpoint, std::string_view begun);
    // Whether all of the body has been read from the client.
    bool body_sent() const { return body_sent_; }
    // The head of the answer. Throws Error{unavailable} when there is none: nobody knows whether
    // the request was carried out. A kept connection may have ended while nobody looked; what only
    // asks is then sent once more over a new one.
    awaitable<const Response*> receive();
    // The body of an answer that is not to be passed on; what is beyond the limit is dropped.
    awaitable<std::string> read_body(std::size_t limit);
    // Passes the answer on to its end.
    awaitable<void> pass();
    // The other server is known to be gone: nobody waits for it any longer.
    void abort();

   private:
    enum class Framing { none, length, chunked, until_close };
    void write_head(std::string& out) const;
    void write_forwarded(std::string& out) const;
    awaitable<bool> receive_head();
    bool may_repeat() const;
    awaitable<void> send_again();
    void frame();
    awaitable<void> send_body(std::string_view begun, bool all);
    awaitable<std::size_t> next_plain();
    awaitable<std::size_t> next_piece(std::span<char> out);
    awaitable<void> pass_body();
    awaitable<void> tunnel();
    void watch_client();
    void done();

    Relay& relay_;
    Exchange& exchange_;
    Endpoint endpoint_;
    std::shared_ptr<Link> link_;
    bool kept_ = false;           // the link has served others before
    std::shared_ptr<bool> over_;  // nobody waits for an answer any more
    bool body_sent_ = false;
    Response head_;
    Framing framing_ = Framing::none;
    std::uint64_t left_ = 0;
    std::size_t piece_left_ = 0;
    std::unique_ptr<class ChunkDecoder> chunks_;
    bool keep_ = false;
    bool switches_ = false;
  };

 private:
  struct Idle {
    std::shared_ptr<Link> link;
    std::chrono::steady_clock::time_point since;
  };
  std::shared_ptr<Link> find_idle(const Endpoint& endpoint);
  awaitable<std::shared_ptr<Link>> open(const Endpoint& endpoint);
  awaitable<bool> connect(Link& link, const Endpoint& endpoint);

  boost::asio::any_io_executor executor_;
  const Milliseconds connect_;
  std::map<std::string, std::vector<Idle>> idle_;
};

}  // namespace tb::http
