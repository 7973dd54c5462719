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

// From the shell.
constexpr char kWaits = 'W';
constexpr char kTakes = 'G';  // from here on the command runs, and never anywhere else
struct Word {
  char word;
  std::int32_t pid;  // its own
};

// To the shell: this and what follows it, in one packet.
enum class Kind : std::uint32_t {
  offer,       // `bytes` of the working directory, a zero byte, the text; what becomes 0, 1 and 2
  copy,        // `bytes` of a filter for the copy; its socket, and the directory of its cgroup
  copy_ahead,  // the same, with time until its command comes
};
struct Head {
  Kind kind;
  std::uint32_t bytes;
};
constexpr std::size_t kStreams = 3;
constexpr std::size_t kMaxFilter = 4096;

}  // namespace tb::guest::waiter
