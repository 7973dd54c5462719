// SPDX-License-Identifier: Apache-2.0
#include "auth/base64url.h"

#include "base/sha256.h"

namespace tb::auth {

std::string base64url(std::string_view bytes) {
  std::string text = base64(bytes);
  while (text.ends_with('=')) text.pop_back();
  for (char& c : text) c = c == '+' ? '-' : c == '/' ? '_' : c;
  return text;
}

std::optional<std::string> from_base64url(std::string_view text) {
  std::string usual;
  usual.reserve(text.size() + 3);
  for (const char c : text) {
    if (c == '+' || c == '/' || c == '=') return std::nullopt;
    usual += c == '-' ? '+' : c == '_' ? '/' : c;
  }
  while (usual.size() % 4 != 0) usual += '=';
  std::optional<std::string> bytes = from_base64(usual);
  // Two texts for the same bytes would be two tokens for the same words.
  if (bytes && base64url(*bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace tb::auth
