// SPDX-License-Identifier: Apache-2.0
// What was kept of a thread's files, as text: layers of tar, the later ones over the earlier ones,
// and what is gone in the end (docs/formats/checkpoints.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tb::checkpoints {

struct Layer {
  std::uint64_t number = 0;
  std::uint64_t parts = 0;  // objects that its bytes are in
  std::uint64_t bytes = 0;
  std::string place;  // of the workspace, that its names are relative to
};

struct Manifest {
  std::chrono::system_clock::time_point kept_at;  // all that was done before is in it
  std::vector<Layer> layers;
  std::set<std::string> removed;
};

std::string to_text(const Manifest& manifest);
// Empty: it is none.
std::optional<Manifest> from_text(std::string_view text);

// ---- keys ----
// Of all that belongs to a thread.
std::string thread_prefix(std::string_view thread);
// Of one owner's: a later claim has a higher generation, and nobody writes into another's.
std::string generation_prefix(std::string_view thread, std::uint64_t generation);
std::string manifest_name(std::uint64_t number);
std::string part_name(std::uint64_t number, std::uint64_t part);
bool is_manifest(std::string_view key);
// Of a key below a thread's prefix; empty: it has none.
std::optional<std::uint64_t> generation_of(std::string_view key);

}  // namespace tb::checkpoints
