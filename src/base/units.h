// SPDX-License-Identifier: Apache-2.0
// Quantities with types: bytes have a unit, durations are std::chrono's.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace tb {

struct Bytes {
  std::uint64_t count = 0;
  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes operator+(Bytes other) const { return {count + other.count}; }
  constexpr Bytes operator*(std::uint64_t factor) const { return {count * factor}; }
  constexpr Bytes operator/(std::uint64_t divisor) const { return {count / divisor}; }
};

inline namespace literals {
constexpr Bytes operator""_B(unsigned long long n) { return {n}; }
constexpr Bytes operator""_KiB(unsigned long long n) { return {n << 10}; }
constexpr Bytes operator""_MiB(unsigned long long n) { return {n << 20}; }
constexpr Bytes operator""_GiB(unsigned long long n) { return {n << 30}; }
}  // namespace literals

using Milliseconds = std::chrono::milliseconds;
using namespace std::chrono_literals;

}  // namespace tb
