// SPDX-License-Identifier: Apache-2.0
#include "http/parameters.h"

#include <algorithm>

#include "http/chars.h"
#include "http/message.h"

namespace tb::http {
namespace {

constexpr std::string_view kBlank = " \t";

std::string_view skip_blank(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  return text;
}

std::size_t token_size(std::string_view text) {
  const auto end =
      std::find_if_not(text.begin(), text.end(), [](char c) { return in(kTokenChars, c); });
  return static_cast<std::size_t>(end - text.begin());
}

// Whether a value may have ended before `rest`: nothing follows, or `; name=`.
bool at_parameter_or_end(std::string_view rest) {
  rest = skip_blank(rest);
  if (rest.empty()) return true;
  if (rest.front() != ';') return false;
  rest = skip_blank(rest.substr(1));
  const std::size_t size = token_size(rest);
  return rest.empty() || (size != 0 && size < rest.size() && rest[size] == '=');
}

// The size of the quoted text that `rest` begins with, up to its closing quote; npos if it has
// none.
std::size_t quoted_size(std::string_view rest) {
  bool escaped = false;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    if (rest[i] == '"' && (!escaped || at_parameter_or_end(rest.substr(i + 1)))) return i;
    escaped = rest[i] == '\\' && !escaped;
  }
  return rest.npos;
}

}  // namespace

std::string_view trim(std::string_view text) {
  text = skip_blank(text);
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

std::optional<RawParameter> take_parameter(std::string_view& rest, const char* complaint) {
  rest = skip_blank(rest);
  if (!rest.empty() && rest.front() != ';') throw HttpError{400, complaint};
  while (!rest.empty() && rest.front() == ';') rest = skip_blank(rest.substr(1));
  if (rest.empty()) return std::nullopt;

  RawParameter parameter;
  parameter.name = rest.substr(0, token_size(rest));
  rest.remove_prefix(parameter.name.size());
  if (parameter.name.empty() || !rest.starts_with('=')) throw HttpError{400, complaint};
  rest.remove_prefix(1);
  parameter.quoted = rest.starts_with('"');
  if (parameter.quoted) {
    rest.remove_prefix(1);
    const std::size_t size = quoted_size(rest);
    if (size == rest.npos) throw HttpError{400, complaint};
    parameter.value = rest.substr(0, size);
    rest.remove_prefix(size + 1);
  } else {
    parameter.value = rest.substr(0, rest.find_first_of("; \t\""));
    rest.remove_prefix(parameter.value.size());
  }
  return parameter;
}

std::string unescape(std::string_view value) {
  std::string plain;
  plain.reserve(value.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i] == '\\') {
      const char next = i + 1 < value.size() ? value[i + 1] : '\0';
      if (next != '\\' && next != '"') return std::string{value};
      ++i;
    }
    plain += value[i];
  }
  return plain;
}

}  // namespace tb::http
