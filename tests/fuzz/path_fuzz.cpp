// SPDX-License-Identifier: Apache-2.0
// Feeds bytes to the decoder of request targets: a path that it gives begins with a slash and has
// no NUL, decoding takes nothing that is not there, and what is encoded again decodes to the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "http/target.h"

namespace {

using tb::http::HttpError;
using tb::http::Request;

std::string encode(const std::string& text, bool keep_slash) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (keep_slash && c == '/') {
      out += c;
    } else {
      out.append({'%', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  return out;
}

bool same(const Request& a, const Request& b) {
  if (a.path != b.path || a.query.size() != b.query.size()) return false;
  for (std::size_t i = 0; i < a.query.size(); ++i) {
    if (a.query[i].name != b.query[i].name || a.query[i].value != b.query[i].value) return false;
  }
  return true;
}

Request parse(std::string method, std::string target) {
  Request request;
  request.method = std::move(method);
  request.target = std::move(target);
  request.headers.add("Host", "x");
  tb::http::parse_target(request);
  return request;
}

void check_round_trip(const Request& request) {
  std::string target = encode(request.path, true);
  char separator = '?';
  for (const auto& [name, value] : request.query) {
    target += separator + encode(name, false) + '=' + encode(value, false);
    separator = '&';
  }
  if (!same(request, parse("GET", target))) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text{reinterpret_cast<const char*>(data) + 1, size - 1};
  const auto decoded = tb::http::percent_decode(text, data[0] % 2 == 0);
  if (decoded && decoded->size() > text.size()) std::abort();
  if (tb::http::percent_decode(encode(text, false)) != text) std::abort();
  try {
    const Request request = parse(data[0] % 4 == 0 ? "OPTIONS" : "GET", text);
    if (request.path == "*") return 0;
    if (!request.path.starts_with('/')) std::abort();
    if (request.path.find('\0') != request.path.npos) std::abort();
    if (request.path.size() > text.size() + 1) std::abort();
    check_round_trip(request);
  } catch (const HttpError& error) {
    if (error.status() != 400) std::abort();
  }
  return 0;
}
