// SPDX-License-Identifier: Apache-2.0
// The program that a container's engine starts for each server: PID 1's messages and descriptors on
// one side, one stream of bytes on the other (guest/carrier_wire.h). It keeps nothing that would be
// lost with it: output stays in the commands' pipes until the server has stored it.
#pragma once

namespace tb::guest {

// Carries between PID 1 of the box `id` and our stdin and stdout until one of them ends. Returns
// the exit code.
int carry(const char* id);

}  // namespace tb::guest
