// SPDX-License-Identifier: Apache-2.0
// What a setting may be, for the tables of config.cpp: each reads a text, complains or stores it.
#pragma once

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <string>
#include <vector>

#include "config.h"

namespace tb::rules {

using Apply = std::function<std::string(Config&, const std::string&)>;

// A whole number within bounds, handed to `store`.
template <class Store>
Apply number(std::uint64_t least, std::uint64_t most, Store store) {
  return [=](Config& config, const std::string& text) -> std::string {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
      return "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most);
    }
    store(config, value);
    return {};
  };
}

template <class Store>
Apply text(Store store) {
  return [=](Config& config, const std::string& value) -> std::string {
    if (value.empty()) return "must not be empty";
    store(config, value);
    return {};
  };
}

template <class Store>
Apply flag(Store store) {
  return [=](Config& config, const std::string& value) -> std::string {
    std::string lower;
    for (const char c : value) {
      lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    const bool on = lower == "true" || lower == "1";
    if (!on && lower != "false" && lower != "0") return "must be true or false";
    store(config, on);
    return {};
  };
}

// Words between commas.
template <class Store>
Apply words(Store store) {
  return [=](Config& config, const std::string& value) -> std::string {
    std::vector<std::string> list;
    std::size_t start = 0;
    while (start <= value.size()) {
      const std::size_t comma = std::min(value.find(',', start), value.size());
      std::string word = value.substr(start, comma - start);
      word.erase(0, word.find_first_not_of(" \t"));
      word.erase(word.find_last_not_of(" \t") + 1);
      if (!word.empty()) list.push_back(std::move(word));
      start = comma + 1;
    }
    store(config, std::move(list));
    return {};
  };
}

// What sandboxes of this machine have as it is, and no other way.
inline Apply only(const char* value) {
  return [=](Config&, const std::string& given) -> std::string {
    if (given == value) return {};
    return std::string{"must be "} + value + ": sandboxes of this machine know no other";
  };
}

// A setting of systems that this server does not speak to.
inline Apply unsupported(const char* why) {
  return [=](Config&, const std::string&) -> std::string { return why; };
}

// ---- rows that have files of their own ----
std::vector<Setting> cluster_settings();
std::vector<Setting> checkpoint_settings();

}  // namespace tb::rules
