// SPDX-License-Identifier: Apache-2.0
// Any bytes as an archive: every entry stays below the top, and what is written is read again.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "guest/tar.h"

namespace {

namespace tar = tb::guest::tar;

void require(bool condition) {
  if (!condition) std::abort();
}

bool stays_below(const std::string& path) {
  return !path.starts_with('/') && ("/" + path + "/").find("/../") == std::string::npos &&
         path.find('\0') == std::string::npos && path.size() <= tar::kMaxPath;
}

void write_and_read(const tar::Entry& entry) {
  const std::string text = tar::make_header(entry);
  std::size_t at = 0;
  tar::Reader reader{[&](char* to, std::size_t size) {
    const std::size_t got = std::min(size, text.size() - at);
    std::memcpy(to, text.data() + at, got);
    at += got;
    return static_cast<ssize_t>(got);
  }};
  tar::Entry again;
  require(reader.next(again) == tar::Reader::Result::entry);
  require(again.path == entry.path && again.kind == entry.kind && again.size == entry.size);
  require(entry.kind != tar::Entry::Kind::link || again.target == entry.target);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = data[0] % 100 + 1u;
  std::size_t at = 1;
  tar::Reader reader{[&](char* to, std::size_t room) {
    const std::size_t got = std::min({room, piece, size - at});
    std::memcpy(to, data + at, got);
    at += got;
    return static_cast<ssize_t>(got);
  }};
  tar::Entry entry;
  while (reader.next(entry) == tar::Reader::Result::entry) {
    require(stays_below(entry.path) && (entry.mode & ~0777u) == 0);
    require(entry.kind != tar::Entry::Kind::hard_link || stays_below(entry.target));
    if (!entry.path.empty() && entry.kind != tar::Entry::Kind::hard_link) write_and_read(entry);
    char buffer[64];
    if (data[0] & 1) {
      while (reader.read(buffer, sizeof buffer) > 0) {
      }
    }
  }
  return 0;
}
