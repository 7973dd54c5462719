// SPDX-License-Identifier: Apache-2.0
#include "base/sha1.h"

#include <bit>
#include <string>

namespace tb {
namespace {

constexpr std::size_t kBlock = 64;
using State = std::array<std::uint32_t, 5>;

std::uint32_t big_endian(const char* at) {
  std::uint32_t word = 0;
  for (int i = 0; i < 4; ++i) word = word << 8 | static_cast<std::uint8_t>(at[i]);
  return word;
}

// What the round of this number does with three of the words, and its constant.
std::uint32_t mix(int round, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
  if (round < 20) return ((b & c) | (~b & d)) + 0x5a827999;
  if (round < 40) return (b ^ c ^ d) + 0x6ed9eba1;
  if (round < 60) return ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc;
  return (b ^ c ^ d) + 0xca62c1d6;
}

void add_block(State& state, const char* block) {
  std::uint32_t w[80];
  for (int i = 0; i < 16; ++i) w[i] = big_endian(block + 4 * i);
  for (int i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  auto [a, b, c, d, e] = state;
  for (int i = 0; i < 80; ++i) {
    const std::uint32_t next = std::rotl(a, 5) + mix(i, b, c, d) + e + w[i];
    e = d, d = c, c = std::rotl(b, 30), b = a, a = next;
  }
  const State more = {a, b, c, d, e};
  for (std::size_t i = 0; i < state.size(); ++i) state[i] += more[i];
}

}  // namespace

std::array<std::uint8_t, 20> sha1(std::string_view text) {
  State state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  const std::size_t whole = text.size() / kBlock * kBlock;
  for (std::size_t at = 0; at < whole; at += kBlock) add_block(state, text.data() + at);

  // The rest, a one, zeros, and the length in bits fill the last block or two.
  std::string tail{text.substr(whole)};
  tail += '\x80';
  while (tail.size() % kBlock != kBlock - 8) tail += '\0';
  const std::uint64_t bits = std::uint64_t{text.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8) tail += static_cast<char>(bits >> shift);
  for (std::size_t at = 0; at < tail.size(); at += kBlock) add_block(state, tail.data() + at);

  std::array<std::uint8_t, 20> digest{};
  for (std::size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<std::uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

}  // namespace tb
