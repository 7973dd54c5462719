// SPDX-License-Identifier: Apache-2.0
#include "limits/allowance.h"

#include <array>
#include <charconv>
#include <set>

#include "base/error.h"

namespace tb::limits {
namespace {

constexpr std::uint64_t kMost = 1'000'000'000'000'000;  // far below where doubles lose count

struct Window {
  std::string_view name;
  std::chrono::seconds length;
};
constexpr std::array<Window, 4> kWindows{{{"s", std::chrono::seconds{1}},
                                          {"min", std::chrono::minutes{1}},
                                          {"h", std::chrono::hours{1}},
                                          {"day", std::chrono::hours{24}}}};

struct RateRow {
  std::string_view name;
  Rate Allowance::* field;
};
constexpr std::array<RateRow, 3> kRates{{{"requests", &Allowance::requests},
                                         {"creations", &Allowance::creations},
                                         {"bytes", &Allowance::bytes}}};

struct CountRow {
  std::string_view name;
  std::uint64_t Allowance::* field;
};
constexpr std::array<CountRow, 2> kCounts{
    {{"sessions", &Allowance::sessions}, {"processes", &Allowance::processes}}};

[[noreturn]] void refuse(std::string_view part, const std::string& why) {
  throw Error{Code::invalid, "\"" + std::string{part} + "\" " + why};
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// A whole number; of bytes with a unit behind it.
std::uint64_t read_number(std::string_view part, std::string_view text, bool bytes) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  unsigned shift = 0;
  if (bytes && unit.size() == 1) {
    const std::size_t which = std::string_view{"kmgt"}.find(unit[0]);
    if (which != std::string_view::npos) {
      shift = static_cast<unsigned>(which + 1) * 10;
      unit = {};
    }
  }
  if (error != std::errc{} || !unit.empty() || number > kMost >> shift) {
    refuse(part, bytes ? "must be a number of bytes such as 500m or 10g, and a window"
                       : "must have a whole number");
  }
  return number << shift;
}

Rate read_rate(std::string_view part, std::string_view value, bool bytes) {
  const std::size_t slash = value.find('/');
  const std::string_view name = slash == value.npos ? "" : value.substr(slash + 1);
  for (const Window& window : kWindows) {
    if (window.name != name) continue;
    return {read_number(part, value.substr(0, slash), bytes), window.length};
  }
  refuse(part, "must have a window behind its number: /s, /min, /h or /day");
}

void read_part(std::string_view part, Allowance& allowance) {
  const std::size_t equals = part.find('=');
  const std::string_view name = trim(part.substr(0, equals));
  const std::string_view value =
      equals == part.npos ? std::string_view{} : trim(part.substr(equals + 1));
  for (const RateRow& row : kRates) {
    if (row.name != name) continue;
    allowance.*row.field = read_rate(part, value, row.name == "bytes");
    return;
  }
  for (const CountRow& row : kCounts) {
    if (row.name != name) continue;
    allowance.*row.field = read_number(part, value, false);
    return;
  }
  refuse(part, "is no limit: there are requests, creations, bytes, sessions and processes");
}

std::string_view name_of(std::chrono::seconds length) {
  for (const Window& window : kWindows) {
    if (window.length == length) return window.name;
  }
  throw Error{Code::internal, "a window without a name"};
}

}  // namespace

Allowance parse_allowance(std::string_view text) {
  Allowance allowance;
  std::set<std::string, std::less<>> seen;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    const std::string_view part = trim(text.substr(start, comma - start));
    start = comma + 1;
    if (part.empty()) continue;
    if (!seen.emplace(trim(part.substr(0, part.find('=')))).second) {
      refuse(part, "is there twice");
    }
    read_part(part, allowance);
  }
  return allowance;
}

std::string to_text(const Allowance& allowance) {
  std::string text;
  const auto add = [&](std::string_view name, std::uint64_t number) {
    if (!text.empty()) text += ',';
    text.append(name).append("=").append(std::to_string(number));
  };
  for (const RateRow& row : kRates) {
    const Rate& rate = allowance.*row.field;
    if (rate.amount == 0) continue;
    add(row.name, rate.amount);
    text.append("/").append(name_of(rate.window));
  }
  for (const CountRow& row : kCounts) {
    if (allowance.*row.field != 0) add(row.name, allowance.*row.field);
  }
  return text;
}

}  // namespace tb::limits
