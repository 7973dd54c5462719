// SPDX-License-Identifier: Apache-2.0
#include "audit/credentials.h"

#include <algorithm>
#include <array>

#include "audit/redactor.h"

namespace tb::audit {
namespace {

// What API keys, tokens of sessions, secrets of webhooks and JSON Web Tokens begin with.
constexpr std::array<std::string_view, 4> kBeginnings{"tb_", "tbs_", "whsec_", "eyJ"};
constexpr std::size_t kShortest = 16;  // of what is meant to be unguessable
// In names of parameters, in any case of letters.
constexpr std::array<std::string_view, 9> kNames{"key",  "token", "secret",     "pass", "pwd",
                                                 "auth", "sig",   "credential", "jwt"};

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '_' || c == '.' || c == '~' || c == '%' || c == '+' || c == '=';
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// One that is written with percent signs may be any.
bool names_credential(std::string_view name) {
  std::string small{name};
  std::transform(small.begin(), small.end(), small.begin(), lower);
  return small.find('%') != small.npos ||
         std::any_of(kNames.begin(), kNames.end(),
                     [&](std::string_view one) { return small.find(one) != small.npos; });
}

// Where a word that looks like a credential begins in `text`; its length is in `size`.
std::size_t find_credential(std::string_view text, std::size_t& size) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string_view rest = text.substr(at);
    const auto begins = [&](std::string_view one) { return rest.starts_with(one); };
    if (std::none_of(kBeginnings.begin(), kBeginnings.end(), begins)) continue;
    size = static_cast<std::size_t>(std::find_if_not(rest.begin(), rest.end(), is_word) -
                                    rest.begin());
    if (size >= kShortest) return at;
  }
  return text.npos;
}

std::string without_words(std::string_view text) {
  std::string out;
  std::size_t size = 0;
  for (std::size_t at; (at = find_credential(text, size)) != text.npos;) {
    out.append(text.substr(0, at)).append(Redactor::kInstead);
    text.remove_prefix(at + size);
  }
  return out.append(text);
}

}  // namespace

std::string without_credentials(std::string_view target) {
  const std::size_t question = std::min(target.find('?'), target.size());
  std::string out = without_words(target.substr(0, question));
  for (std::size_t start = question; start < target.size();) {
    const std::size_t end = std::min(target.find('&', start + 1), target.size());
    const std::string_view one = target.substr(start, end - start);  // with what is before it
    const std::size_t equals = std::min(one.find('='), one.size());
    out.append(without_words(one.substr(0, equals)));
    if (equals < one.size()) {
      const std::string_view value = one.substr(equals + 1);
      out += '=';
      if (names_credential(one.substr(1, equals - 1)) && !value.empty()) {
        out.append(Redactor::kInstead);
      } else {
        out.append(without_words(value));
      }
    }
    start = end;
  }
  return out;
}

}  // namespace tb::audit
