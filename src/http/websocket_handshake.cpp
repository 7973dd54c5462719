// SPDX-License-Identifier: Apache-2.0
#include "http/websocket_handshake.h"

#include <algorithm>

#include "base/sha1.h"
#include "base/sha256.h"
#include "http/chars.h"

namespace tb::http {
namespace {

constexpr std::string_view kVersion = "13";

// The elements of comma-separated headers of this name, one after the other, without spaces
// around them; ends when `take` answers true, and returns that.
template <class Take>
bool any_element(const Headers& headers, std::string_view name, Take take) {
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const auto [field, value] = headers[i];
    if (!equal_ignoring_case(field, name)) continue;
    for (std::size_t start = 0; start <= value.size();) {
      const std::size_t comma = std::min(value.find(',', start), value.size());
      std::string_view element = value.substr(start, comma - start);
      start = comma + 1;
      element.remove_prefix(std::min(element.find_first_not_of(" \t"), element.size()));
      element = element.substr(0, element.find_last_not_of(" \t") + 1);
      if (take(element)) return true;
    }
  }
  return false;
}

// Sixteen bytes as base64: 22 letters, of which the last carries two bits, and the padding.
bool is_key(std::string_view key) {
  constexpr CharTable kLetters = make_table("+/", true);
  return key.size() == 24 && key.ends_with("==") && all_in(kLetters, key.substr(0, 22)) &&
         std::string_view{"AQgw"}.find(key[21]) != std::string_view::npos;
}

[[noreturn]] void upgrade_required(const char* text) {
  throw HttpError{
      426, text, {{"Upgrade", "websocket"}, {"Sec-WebSocket-Version", std::string{kVersion}}}};
}

std::string choose_protocol(const Headers& headers, const std::vector<std::string>& protocols) {
  for (const std::string& ours : protocols) {
    const auto same = [&](std::string_view theirs) { return theirs == ours; };
    if (any_element(headers, "Sec-WebSocket-Protocol", same)) return ours;
  }
  return {};
}

}  // namespace

bool has_token(const Headers& headers, std::string_view name, std::string_view token) {
  return any_element(headers, name,
                     [&](std::string_view element) { return equal_ignoring_case(element, token); });
}

bool wants_websocket(const Request& request) {
  return has_token(request.headers, "Upgrade", "websocket");
}

std::string websocket_accept(std::string_view key) {
  const auto digest = sha1(std::string{key} + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
  return base64({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

Response accept_websocket(const Request& request, const std::vector<std::string>& protocols) {
  const Headers& headers = request.headers;
  if (request.method != "GET" || request.version < 11 || !wants_websocket(request) ||
      !has_token(headers, "Connection", "upgrade")) {
    upgrade_required("This is a WebSocket: ask for it with GET, Upgrade and Connection");
  }
  const auto version = headers.find("Sec-WebSocket-Version");
  if (!version || *version != kVersion || headers.count("Sec-WebSocket-Version") != 1) {
    upgrade_required("The only version of WebSocket spoken is 13");
  }
  const auto key = headers.find("Sec-WebSocket-Key");
  if (!key || !is_key(*key) || headers.count("Sec-WebSocket-Key") != 1) {
    throw HttpError{400, "Sec-WebSocket-Key must be 16 bytes in base64"};
  }
  Response response;
  response.status = 101;
  response.headers = {{"Upgrade", "websocket"}, {"Sec-WebSocket-Accept", websocket_accept(*key)}};
  if (const std::string chosen = choose_protocol(headers, protocols); !chosen.empty()) {
    response.headers.push_back({"Sec-WebSocket-Protocol", chosen});
  }
  return response;
}

}  // namespace tb::http
