// SPDX-License-Identifier: Apache-2.0
// Bytes from several places, sent as one.
#pragma once

#include <array>
#include <string_view>

namespace tb::http {

// A message in up to three pieces, as sendmsg(2) takes them.
using Pieces = std::array<std::string_view, 3>;

// Sends what the kernel takes at once, and shortens the pieces by that; true when that was all.
// The common case: no wait, no coroutine, one system call. Throws Disconnected.
bool push_pieces(int socket, Pieces& pieces);

}  // namespace tb::http
