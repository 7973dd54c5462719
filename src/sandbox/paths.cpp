// SPDX-License-Identifier: Apache-2.0
#include "sandbox/paths.h"

#include "base/utf8.h"

namespace tb::sandbox {
namespace {

constexpr std::size_t kMaxPath = 4000;
constexpr std::size_t kMaxPart = 255;

// Characters that other systems fold into dots and slashes: nobody means them in a name that is
// nothing but them, and a careless client may normalise them later.
std::string fold(std::string_view part) {
  struct Pair {
    std::string_view from;
    std::string_view to;
  };
  constexpr Pair kAlike[] = {{"\uff0e", "."}, {"\u2024", "."}, {"\u2025", ".."}, {"\uff0f", "/"},
                             {"\u2215", "/"}, {"\u2044", "/"}, {"\uff3c", "/"},  {"\\", "/"}};
  std::string folded{part};
  for (const Pair& pair : kAlike) {
    for (std::size_t at = 0; (at = folded.find(pair.from, at)) != std::string::npos;) {
      folded.replace(at, pair.from.size(), pair.to);
    }
  }
  return folded;
}

bool climbs(std::string_view path) {
  std::size_t start = 0;
  while (start <= path.size()) {
    const std::size_t slash = std::min(path.find('/', start), path.size());
    const std::string_view part = path.substr(start, slash - start);
    if (part == "." || part == "..") return true;
    start = slash + 1;
  }
  return false;
}

}  // namespace

std::optional<std::string> find_workspace_path(std::string_view name) {
  const bool whole = !name.empty() && name.front() != '/' && name.back() != '/';
  if (!whole || name.size() > kMaxPath || name.find('\0') != std::string_view::npos ||
      !is_utf8(name) || climbs(name) || climbs(fold(name))) {
    return std::nullopt;
  }
  std::string path;
  std::size_t start = 0;
  while (start < name.size()) {
    const std::size_t slash = std::min(name.find('/', start), name.size());
    const std::string_view part = name.substr(start, slash - start);
    start = slash + 1;
    if (part.empty()) continue;
    if (part.size() > kMaxPart) return std::nullopt;
    if (!path.empty()) path += '/';
    path += part;
  }
  return path;
}

std::optional<std::string> find_path(std::string_view name) {
  constexpr std::string_view kTop = "/workspace";
  if (name == kTop || (name.starts_with(kTop) && name[kTop.size()] == '/')) {
    name.remove_prefix(kTop.size());
    while (name.starts_with('/')) name.remove_prefix(1);
  } else if (name.starts_with("./")) {
    name.remove_prefix(2);
  }
  while (name.size() > 1 && name.ends_with('/')) name.remove_suffix(1);
  return name.empty() || name == "." ? std::string{} : find_workspace_path(name);
}

}  // namespace tb::sandbox
