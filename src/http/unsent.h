// SPDX-License-Identifier: Apache-2.0
// What of a response waits in the kernel until its reader takes it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tb::http {

// Little, unless Unsent knows better: the kernel would take megabytes from each slow reader's
// response, and tell for half a minute of none that the reader goes on.
void keep_little_unsent(int socket);

// How many bytes the reader's side has not got yet.
std::size_t unsent(int socket);

// Whether it has got enough since `before` of them were missing to be no mere trickle.
bool reader_goes_on(int socket, std::size_t before);

// More for a reader that has shown how fast it is, as long as it is and this exists: refilled so
// seldom, a large file is sent a tenth faster.
class Unsent {
 public:
  explicit Unsent(int socket) : socket_(socket) {}
  ~Unsent() { allow_more(false); }
  Unsent(const Unsent&) = delete;
  Unsent& operator=(const Unsent&) = delete;

  // `bytes` were sent, and then the reader was waited for.
  void note(std::uint64_t bytes, std::chrono::nanoseconds waited);

 private:
  void allow_more(bool more);

  int socket_;
  std::uint64_t fast_ = 0;  // bytes in a row that it did not keep us waiting for
  bool more_ = false;
};

}  // namespace tb::http
