// SPDX-License-Identifier: Apache-2.0
#include "base/mount_target.h"

#include <algorithm>

namespace tb {
namespace {

constexpr std::size_t kMaxPath = 255;
constexpr std::size_t kMaxParts = 16;

// Programs, their settings, and the kernel's own file systems.
constexpr std::string_view kTaken[] = {"bin",    "boot", "dev", "etc",  "lib", "lib32", "lib64",
                                       "libx32", "proc", "run", "sbin", "sys", "usr"};
// The sandbox's own places, and free below.
constexpr std::string_view kOwn[] = {
    "/home", "/home/sandboxuser", "/sandbox", "/tmp",
    "/var",  "/var/empty",        "/var/lib", "/var/lib/unreadable"};
constexpr std::string_view kSecondWorkspace = "/sandbox/workspace";

template <class List>
bool contains(const List& list, std::string_view value) {
  return std::find(std::begin(list), std::end(list), value) != std::end(list);
}

bool has_control_characters(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

bool is_below(std::string_view path, std::string_view top) {
  return path.size() > top.size() && path.starts_with(top) && path[top.size()] == '/';
}

}  // namespace

std::string problem_of_target(std::string_view path) {
  if (path.empty() || path.front() != '/') return "must be an absolute path";
  if (path.size() > kMaxPath) return "must not be longer than 255 bytes";
  if (has_control_characters(path)) return "must not contain control characters";
  if (path == "/") return "must not be the root";
  std::size_t parts = 0;
  for (std::size_t start = 1; start <= path.size(); ++parts) {
    const std::size_t slash = std::min(path.find('/', start), path.size());
    const std::string_view part = path.substr(start, slash - start);
    if (part.empty()) return "must not have empty parts";
    if (part == "." || part == "..") return "must not have . or .. in it";
    if (parts == 0 && contains(kTaken, part)) {
      return "must not be in /" + std::string{part} + ", which every sandbox needs as it is";
    }
    start = slash + 1;
  }
  if (parts > kMaxParts) return "must not have more than 16 parts";
  if (contains(kOwn, path)) return "is a place of the sandbox itself: choose one below, or another";
  if (path == kSecondWorkspace || is_below(path, kSecondWorkspace)) {
    return "must name the workspace as /workspace";
  }
  return {};
}

bool targets_touch(std::string_view a, std::string_view b) {
  return a == b || is_below(a, b) || is_below(b, a);
}

}  // namespace tb
