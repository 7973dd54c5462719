// SPDX-License-Identifier: Apache-2.0
// Feeds bytes to the reader of labels: what it takes for a session must be the same session after
// being written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "session/label.h"

namespace {}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string label{reinterpret_cast<const char*>(data), size};
  const auto session = tb::session::from_label(label);
  if (!session) return 0;
  const auto again = tb::session::from_label(tb::session::to_label(*session));
  if (!again || again->id != session->id || again->thread != session->thread ||
      again->user != session->user || again->idle != session->idle ||
      again->created != session->created) {
    std::abort();
  }
  return 0;
}
