// SPDX-License-Identifier: Apache-2.0
// PID 1 of a container: what a keeper would have prepared, found out from inside; the door through
// which carriers come; and its end when nobody wants it any more.
#pragma once

#include <cstdint>

#include "guest/container_wire.h"

namespace tb::guest {

// Of the carrier, so that a command can neither signal it nor come through the door in its place.
constexpr unsigned kCarrierUid = 64999;

// Opens the places of the counters that tell which limits were met.
Config container_config();

// Returns nullptr, or the step that failed (errno says why).
const char* confine_in_container();

// What a shell that is started ahead loads lies beside our program. Takes both numbers even where
// it is not there: such shells end at once then, and no more are started.
void open_waiter();

// The name of the door, in the abstract namespace of the container's network: the first one who
// binds it has it, and that is PID 1. Of a network that several containers share, each has its own.
int open_door(const char* id);
// The next carrier, or -1. Whoever else knocks is turned away.
int admit(int door);
// As a carrier: a socket to PID 1, or -1 (errno says why).
int knock(const char* id);

// When PID 1 ends by itself: Lease.
class Expiry {
 public:
  Expiry();
  void renew(const Lease& lease);
  // A server is there, or none is.
  void server(bool there);
  // Milliseconds until it is over, at most an hour; 0: now.
  int left() const;
  // What to take along at the end.
  bool with_files() const { return lease_.idle_ms > 0; }

 private:
  Lease lease_;
  std::uint64_t renewed_ms_;
  std::uint64_t left_ms_;  // when the last server went
  bool server_ = false;
};

// Ends all other processes, removes the workspace's content if asked to, and exits.
[[noreturn]] void end_container(bool with_files);

}  // namespace tb::guest
