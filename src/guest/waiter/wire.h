// SPDX-License-Identifier: Apache-2.0
// What PID 1 and a bash that it started ahead say to each other.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tb::guest::waiter {

// Where the shell finds what it was given.
constexpr int kLibraryFd = 3;  // this builtin
constexpr int kOpeningFd = 4;  // opening.bash
constexpr int kOfferFd = 5;    // a seqpacket socket

constexpr char kBashEnv[] = "BASH_ENV=/dev/fd/4";

// `bash -c` and a third word of blanks: room for the command, as ps(1) shows it. The kernel shows
// one page at most of words that were overwritten.
constexpr std::size_t kWords = 4096;
constexpr std::size_t kFirstWords = sizeof "bash" + sizeof "-c";
constexpr std::size_t kBlanks = kWords - kFirstWords - 1;

// From the shell, a byte in a packet of its own.
constexpr char kWaits = 'W';
constexpr char kTakes = 'G';  // from here on the command runs, and never anywhere else

// To the shell: this, the working directory, a zero byte, the text, with the descriptors that
// become 0, 1 and 2.
struct Offer {
  std::uint32_t directory_bytes;
};
constexpr std::size_t kStreams = 3;

}  // namespace tb::guest::waiter
