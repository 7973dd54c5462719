// SPDX-License-Identifier: Apache-2.0
#include "http/range.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "http/chars.h"
#include "http/parameters.h"

namespace tb::http {
namespace {

constexpr std::string_view kUnit = "bytes=";

// Digits only; more than fit are as good as the largest number, which no file reaches.
std::optional<std::uint64_t> parse_position(std::string_view digits) {
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), is_digit)) return std::nullopt;
  std::uint64_t position = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), position);
  if (result.ec != std::errc{}) return std::numeric_limits<std::uint64_t>::max();
  return position;
}

// From the first byte up to, without, the last; cut to the file. Empty when it is no range.
struct Bounds {
  std::uint64_t first;
  std::uint64_t end;
};

std::optional<Bounds> parse_bounds(std::string_view range, std::uint64_t size) {
  const std::size_t dash = range.find('-');
  if (dash == range.npos) return std::nullopt;
  const auto first = parse_position(range.substr(0, dash));
  const auto last = parse_position(range.substr(dash + 1));
  if (dash == 0) {
    if (!last) return std::nullopt;
    return Bounds{size - std::min(size, *last), size};
  }
  const bool open = dash + 1 == range.size();
  if (!first || (!last && !open) || (last && *last < *first)) return std::nullopt;
  return Bounds{*first, last && *last < size ? *last + 1 : size};
}

// A weak ETag promises no equal bytes, and a date must be the very one that we sent.
bool is_current(std::string_view condition, const Validators& file) {
  if (condition.empty() || condition.starts_with("W/")) return false;
  if (condition.starts_with('"')) return condition == file.etag;
  return condition == file.last_modified;
}

// The one range that the request asks for, after the unit; empty when the whole is to be sent.
std::string_view find_range(const Headers& headers, const Validators& file) {
  const auto range = headers.find("range");
  if (!range || headers.count("range") > 1) return {};
  if (!equal_ignoring_case(range->substr(0, kUnit.size()), kUnit)) return {};
  if (const auto condition = headers.find("if-range"); condition && !is_current(*condition, file)) {
    return {};
  }
  return trim(range->substr(kUnit.size()));
}

}  // namespace

Slice select_range(const Headers& headers, std::uint64_t size, const Validators& file) {
  const Slice whole{.status = 200, .first = 0, .length = size, .content_range = {}};
  const std::string_view range = find_range(headers, file);
  if (range.empty()) return whole;
  const auto bounds = parse_bounds(range, size);
  if (!bounds) return whole;
  if (bounds->first >= bounds->end) {
    throw HttpError{416,
                    "The range has no byte of the file",
                    {{"Content-Range", "bytes */" + std::to_string(size)}}};
  }
  return {.status = 206,
          .first = bounds->first,
          .length = bounds->end - bounds->first,
          .content_range = "bytes " + std::to_string(bounds->first) + '-' +
                           std::to_string(bounds->end - 1) + '/' + std::to_string(size)};
}

}  // namespace tb::http
