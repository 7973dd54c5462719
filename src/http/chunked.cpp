// SPDX-License-Identifier: Apache-2.0
#include "http/chunked.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "http/chars.h"
#include "http/message.h"

namespace tb::http {
namespace {

constexpr int kMaxDigits = 16;
// Of all extensions of one body together: they are read only to be thrown away.
constexpr std::size_t kMaxExtensions = 8 << 10;

[[noreturn]] void bad(const char* text) { throw HttpError{400, text}; }

}  // namespace

void ChunkDecoder::count_extension() {
  if (++extensions_ > kMaxExtensions) bad("The chunk extensions are too large");
}

void ChunkDecoder::step_size(char c) {
  if (const int digit = hex_value(c); digit >= 0) {
    if (++digits_ > kMaxDigits) bad("A chunk size has too many digits");
    remaining_ = remaining_ * 16 + static_cast<unsigned>(digit);
  } else if (digits_ == 0) {
    bad("A chunk has no size");
  } else if (c == ';') {
    state_ = State::extension_name;
    empty_ = true;
  } else if (c == '\r') {
    state_ = State::size_lf;
  } else {
    bad("A chunk size is not a hexadecimal number");
  }
}

// Quoted values are part of the grammar, but nobody sends them: they are refused.
void ChunkDecoder::step_extension(char c) {
  count_extension();
  if (in(kTokenChars, c)) {
    empty_ = false;
  } else if (empty_) {
    bad("A chunk extension is malformed");
  } else if (c == '\r') {
    state_ = State::size_lf;
  } else if (c == ';' || (c == '=' && state_ == State::extension_name)) {
    state_ = c == ';' ? State::extension_name : State::extension_value;
    empty_ = true;
  } else {
    bad("A chunk extension is malformed");
  }
}

void ChunkDecoder::finish_size_line() {
  // Nobody sends that; a signed number somewhere else would read it as negative.
  if (remaining_ > std::numeric_limits<std::int64_t>::max()) bad("A chunk size is too large");
  state_ = remaining_ == 0 ? State::final_cr : State::data;
  digits_ = 0;
}

void ChunkDecoder::step(char c) {
  const auto expect = [&](char wanted, State next) {
    if (c != wanted) bad("A line of the chunked body ends without CR LF");
    state_ = next;
  };
  switch (state_) {
    case State::size: return step_size(c);
    case State::extension_name:
    case State::extension_value: return step_extension(c);
    case State::size_lf: expect('\n', State::data); return finish_size_line();
    case State::data_cr: return expect('\r', State::data_lf);
    case State::data_lf: return expect('\n', State::size);
    case State::final_cr:
      if (c != '\r') bad("Trailers are not supported");
      state_ = State::final_lf;
      return;
    case State::final_lf: return expect('\n', State::done);
    case State::data:
    case State::done: return;
  }
}

ChunkDecoder::Progress ChunkDecoder::decode(std::string_view in, std::span<char> out) {
  Progress progress;
  while (progress.consumed < in.size() && !done()) {
    if (state_ != State::data) {
      step(in[progress.consumed++]);
      continue;
    }
    const std::size_t room = out.size() - progress.produced;
    if (room == 0) break;
    const auto size = static_cast<std::size_t>(
        std::min<std::uint64_t>(remaining_, std::min(room, in.size() - progress.consumed)));
    std::memcpy(out.data() + progress.produced, in.data() + progress.consumed, size);
    progress.consumed += size;
    progress.produced += size;
    remaining_ -= size;
    if (remaining_ == 0) state_ = State::data_cr;
  }
  return progress;
}

}  // namespace tb::http
