// SPDX-License-Identifier: Apache-2.0
#include "guest/tar.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>

namespace tb::guest::tar {
namespace {

// Where the fields of a header are, and how long (pax(1), "ustar Interchange Format").
struct Field {
  std::size_t at;
  std::size_t size;
};
constexpr Field kName{0, 100}, kMode{100, 8}, kUid{108, 8}, kGid{116, 8}, kSize{124, 12},
    kTime{136, 12}, kSum{148, 8}, kLinked{157, 100}, kMagic{257, 8}, kPrefix{345, 155};
constexpr std::size_t kType = 156;

std::string_view view(const char* block, Field field) { return {block + field.at, field.size}; }

std::string text_of(const char* block, Field field) {
  const std::string_view text = view(block, field);
  return std::string{text.substr(0, std::min(text.find('\0'), text.size()))};
}

// Octal digits between spaces and NULs; or, with the first bit set, the number itself.
bool number_of(std::string_view text, std::uint64_t& to) {
  to = 0;
  if (static_cast<unsigned char>(text.front()) & 0x80) {
    if (text.front() != '\x80') return false;  // negative, or more than 2^64
    for (const char c : text.substr(1)) {
      if (to >> 56) return false;
      to = to << 8 | static_cast<unsigned char>(c);
    }
    return true;
  }
  const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
  text.remove_prefix(first);
  const std::size_t end = std::min(text.find_first_of(std::string_view{" \0", 2}), text.size());
  if (end == 0) return true;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + end, to, 8);
  return error == std::errc{} && stop == text.data() + end;
}

// With the sum's own field taken for spaces.
bool sum_is_right(const char* block) {
  std::uint64_t told = 0;
  if (!number_of(view(block, kSum), told)) return false;
  std::uint64_t sum = 0;
  std::int64_t signed_sum = 0;  // as some old programs counted
  for (std::size_t i = 0; i < kBlock; ++i) {
    const bool own = i >= kSum.at && i < kSum.at + kSum.size;
    const auto byte = static_cast<unsigned char>(own ? ' ' : block[i]);
    sum += byte;
    signed_sum += static_cast<signed char>(byte);
  }
  return sum == told || signed_sum == static_cast<std::int64_t>(told);
}

bool all_zero(const char* block) {
  return std::all_of(block, block + kBlock, [](char c) { return c == 0; });
}

template <class T>
bool decimal(std::string_view text, T& to) {
  const std::string_view whole = text.substr(0, std::min(text.find('.'), text.size()));
  const auto [stop, error] = std::from_chars(whole.data(), whole.data() + whole.size(), to);
  return error == std::errc{} && stop == whole.data() + whole.size() && !whole.empty();
}

void put(std::string& block, Field field, std::string_view text) {
  block.replace(field.at, std::min(field.size, text.size()), text.substr(0, field.size));
}

void put_number(std::string& block, Field field, std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%0*llo", static_cast<int>(field.size) - 1,
                static_cast<unsigned long long>(value));
  put(block, field, text);
}

std::string plain_header(const std::string& path, const std::string& target, char type,
                         std::uint64_t size, unsigned mode, std::int64_t modified) {
  constexpr unsigned kTenant = 1000;
  constexpr std::uint64_t kMost = 077777777777;
  std::string block(kBlock, '\0');
  put(block, kName, path);
  put_number(block, kMode, mode);
  put_number(block, kUid, kTenant);
  put_number(block, kGid, kTenant);
  put_number(block, kSize, std::min(size, kMost));
  put_number(block, kTime, std::clamp<std::int64_t>(modified, 0, kMost));
  block[kType] = type;
  put(block, kLinked, target);
  put(block, kMagic, std::string_view{"ustar\00000", 8});
  put(block, kSum, "        ");
  std::uint64_t sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  char text[8];
  std::snprintf(text, sizeof text, "%06llo", static_cast<unsigned long long>(sum));
  put(block, kSum, std::string_view{text, 7});
  return block;
}

// "27 path=name\n": the length counts itself.
std::string record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t size = rest + 1;
  while (rest + std::to_string(size).size() != size) ++size;
  return std::to_string(size) + " " + std::string{key} + "=" + std::string{value} + "\n";
}

}  // namespace

bool Reader::fail(std::string what) {
  problem_ = std::move(what);
  if (!name_.empty()) problem_ += " (" + name_.substr(0, 200) + ")";
  return false;
}

// All of it, unless the archive ends exactly here and may.
bool Reader::fill(char* to, std::size_t size, bool may_end, bool& ended) {
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got = source_(to + have, size - have);
    if (got == 0 && have == 0 && may_end) return ended = true, true;
    if (got <= 0) return fail(got == 0 ? "the archive is cut" : "the archive can't be read");
    have += static_cast<std::size_t>(got);
  }
  return true;
}

ssize_t Reader::read(char* to, std::size_t size) {
  if (left_ == 0) return 0;
  const ssize_t got = source_(to, static_cast<std::size_t>(std::min<std::uint64_t>(size, left_)));
  if (got <= 0) return fail(got == 0 ? "the archive is cut" : "the archive can't be read"), -1;
  left_ -= static_cast<std::uint64_t>(got);
  return got;
}

bool Reader::skip_rest() {
  char buffer[4096];
  left_ += padding_;
  padding_ = 0;
  while (left_ > 0) {
    if (read(buffer, sizeof buffer) < 0) return false;
  }
  return true;
}

bool Reader::read_header(char* block, bool& end) {
  if (++headers_ > kMaxHeaders) return fail("too many entries");
  if (!fill(block, kBlock, true, end)) return false;
  if (end) return true;
  if (all_zero(block)) return end = true;
  return sum_is_right(block) || fail("this is no tar: a header's sum is wrong");
}

bool Reader::read_records(std::string_view text, Extra& to) {
  while (!text.empty()) {
    std::size_t size = 0;
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos || !decimal(text.substr(0, space), size) ||
        size <= space + 1 || size > text.size() || text[size - 1] != '\n') {
      return fail("a broken pax header");
    }
    const std::string_view line = text.substr(space + 1, size - space - 2);
    text.remove_prefix(size);
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) return fail("a broken pax header");
    const std::string_view key = line.substr(0, equals);
    const std::string_view value = line.substr(equals + 1);
    if (key == "path") to.path = value;
    if (key == "linkpath") to.target = value;
    if (key.starts_with("GNU.sparse.")) to.sparse = key;
    if (key == "size" && !(to.has_size = decimal(value, to.size))) return fail("a broken size");
    if (key == "mtime") to.has_modified = decimal(value, to.modified);
  }
  return true;
}

// What is in front of an entry and belongs to it.
bool Reader::read_extra(char kind, std::uint64_t size, Extra& to) {
  if (size > kMaxExtra) return fail("a header of more than 64 KiB");
  std::string text(size + padding_of(size), '\0');
  bool ended = false;
  if (!text.empty() && !fill(text.data(), text.size(), false, ended)) return false;
  text.resize(size);
  if (kind == 'x') return read_records(text, to);
  if (kind == 'L') to.path = text.substr(0, std::min(text.find('\0'), text.size()));
  if (kind == 'K') to.target = text.substr(0, std::min(text.find('\0'), text.size()));
  return true;  // of 'g', which is for all entries, nothing is needed
}

bool Reader::clean(std::string raw, std::string& to) {
  to.clear();
  name_ = raw;
  if (raw.find('\0') != std::string::npos) return fail("a path with a NUL");
  if (raw.starts_with('/')) return fail("an absolute path");
  if (raw.size() > kMaxPath) return fail("a path that is too long");
  std::size_t start = 0;
  while (start <= raw.size()) {
    const std::size_t slash = std::min(raw.find('/', start), raw.size());
    const std::string part = raw.substr(start, slash - start);
    start = slash + 1;
    if (part.empty() || part == ".") continue;
    if (part == "..") return fail("a path with a .. part");
    if (part.size() > 255) return fail("a name that is too long");
    to += (to.empty() ? "" : "/") + part;
  }
  return true;
}

bool Reader::make_entry(const char* block, const Extra& extra, Entry& to) {
  const char type = block[kType];
  std::string path = extra.path;
  if (path.empty()) {
    const std::string prefix = view(block, kMagic).starts_with(std::string_view{"ustar\0", 6})
                                   ? text_of(block, kPrefix)
                                   : std::string{};
    path = (prefix.empty() ? "" : prefix + "/") + text_of(block, kName);
  }
  name_ = path;
  std::uint64_t mode = 0;
  std::uint64_t modified = 0;
  if (!number_of(view(block, kMode), mode) || !number_of(view(block, kSize), to.size)) {
    return fail("a broken header");
  }
  if (extra.has_size) to.size = extra.size;
  if (!number_of(view(block, kTime), modified) || modified > INT32_MAX * 64ull) modified = 0;
  to.modified = extra.has_modified ? extra.modified : static_cast<std::int64_t>(modified);
  to.mode = mode & 0777;  // nobody becomes somebody else by an archive
  to.target = extra.target.empty() ? text_of(block, kLinked) : extra.target;
  const bool is_file = type == '0' || type == '\0' || type == '7';
  if (!extra.sparse.empty() || type == 'S') return fail("a sparse file: pack it without --sparse");
  if (is_file) {
    to.kind = path.ends_with('/') ? Entry::Kind::directory : Entry::Kind::file;
  } else if (type == '5') {
    to.kind = Entry::Kind::directory;
  } else if (type == '2') {
    to.kind = Entry::Kind::link;
  } else if (type == '1') {
    to.kind = Entry::Kind::hard_link;
  } else {
    return fail("neither a file nor a directory nor a link");
  }
  if (to.kind != Entry::Kind::file) to.size = 0;
  left_ = to.size;
  padding_ = padding_of(to.size);
  if (to.kind == Entry::Kind::hard_link && !clean(to.target, to.target)) return false;
  if (to.kind == Entry::Kind::link && (to.target.empty() || to.target.size() > kMaxPath ||
                                       to.target.find('\0') != std::string::npos)) {
    return fail("a link to nowhere");
  }
  return clean(std::move(path), to.path);
}

Reader::Result Reader::next(Entry& to) {
  Extra extra;
  char block[kBlock];
  bool end = false;
  bool in_front = false;  // something was read that belongs to an entry
  if (!skip_rest()) return Result::bad;
  for (;;) {
    name_.clear();
    if (!read_header(block, end)) return Result::bad;
    if (end && in_front) return fail("the archive is cut"), Result::bad;
    if (end) return Result::end;
    const char type = block[kType];
    if (type != 'x' && type != 'g' && type != 'L' && type != 'K') break;
    in_front = in_front || type != 'g';
    std::uint64_t size = 0;
    if (!number_of(view(block, kSize), size)) return fail("a broken header"), Result::bad;
    if (!read_extra(type, size, extra)) return Result::bad;
  }
  return make_entry(block, extra, to) ? Result::entry : Result::bad;
}

std::size_t padding_of(std::uint64_t size) {
  return static_cast<std::size_t>((kBlock - size % kBlock) % kBlock);
}

std::string make_header(const Entry& entry) {
  constexpr std::uint64_t kMostOctal = 077777777777;
  const bool directory = entry.kind == Entry::Kind::directory;
  const std::string path = directory ? entry.path + "/" : entry.path;
  std::string records;
  if (path.size() > kName.size) records += record("path", path);
  if (entry.target.size() > kLinked.size) records += record("linkpath", entry.target);
  if (entry.size > kMostOctal) records += record("size", std::to_string(entry.size));
  std::string header;
  if (!records.empty()) {
    header = plain_header("pax", {}, 'x', records.size(), 0644, entry.modified) + records;
    header.append(padding_of(records.size()), '\0');
  }
  constexpr char kTypes[] = {'0', '5', '2', '1'};
  return header + plain_header(path, entry.target, kTypes[static_cast<int>(entry.kind)], entry.size,
                               entry.mode, entry.modified);
}

}  // namespace tb::guest::tar
