// SPDX-License-Identifier: Apache-2.0
// Values to bytes and back for the keeper's and the guest's messages: little-endian fixed-width
// integers and length-prefixed bytes. Free of exceptions, because PID 1 uses it too: a Reader that
// ran past the end answers zeros and stays failed.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tb {

class Writer {
 public:
  void u8(std::uint8_t v) { out_.push_back(static_cast<char>(v)); }
  void u32(std::uint32_t v) { raw(&v, sizeof v); }
  void u64(std::uint64_t v) { raw(&v, sizeof v); }
  void i32(std::int32_t v) { raw(&v, sizeof v); }
  void bytes(std::string_view v) {
    u32(static_cast<std::uint32_t>(v.size()));
    out_.append(v);
  }
  void list(const std::vector<std::string>& values) {
    u32(static_cast<std::uint32_t>(values.size()));
    for (const auto& value : values) bytes(value);
  }
  std::string take() { return std::move(out_); }
  const std::string& view() const { return out_; }

 private:
  void raw(const void* data, std::size_t size) {
    out_.append(static_cast<const char*>(data), size);
  }
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}
  std::uint8_t u8() { return number<std::uint8_t>(); }
  std::uint32_t u32() { return number<std::uint32_t>(); }
  std::uint64_t u64() { return number<std::uint64_t>(); }
  std::int32_t i32() { return number<std::int32_t>(); }
  std::string_view view() {
    const std::uint32_t size = u32();
    if (!ok_ || size > in_.size()) return fail(), std::string_view{};
    const std::string_view value = in_.substr(0, size);
    in_.remove_prefix(size);
    return value;
  }
  std::string bytes() { return std::string{view()}; }
  std::vector<std::string> list() {
    const std::uint32_t count = u32();
    std::vector<std::string> values;
    // Each value takes four bytes at least: a lying count can't make us reserve much.
    if (!ok_ || count > in_.size() / 4) return fail(), values;
    values.reserve(count);
    for (std::uint32_t i = 0; i < count && ok_; ++i) values.emplace_back(view());
    return values;
  }
  bool ok() const { return ok_; }
  // True when everything was read and nothing is left over.
  bool done() const { return ok_ && in_.empty(); }

 private:
  template <class T>
  T number() {
    T value{};
    if (!ok_ || in_.size() < sizeof value) return fail(), T{};
    std::memcpy(&value, in_.data(), sizeof value);
    in_.remove_prefix(sizeof value);
    return value;
  }
  void fail() { ok_ = false; }

  std::string_view in_;
  bool ok_ = true;
};

}  // namespace tb
