// SPDX-License-Identifier: Apache-2.0
// Feeds bytes to the request parser and asks three things: it must not crash; the same bytes in
// pieces of another size must be the same requests; and what it accepts, Beast must read the same
// way, up to the same byte.
#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "http/parser.h"

namespace {

using tb::http::HttpError;
using tb::http::RequestParser;

struct Message {
  std::string head;  // Method, target and headers, as text.
  std::string body;
  std::size_t end = 0;  // Where in the input it ended.
  bool operator==(const Message&) const = default;
};

struct Result {
  std::vector<Message> messages;
  bool failed = false;
  bool operator==(const Result&) const = default;
};

std::string describe(const tb::http::Request& request) {
  std::string text = request.method + ' ' + request.target + ' ' + request.path + '\n';
  for (std::size_t i = 0; i < request.headers.size(); ++i) {
    text.append(request.headers[i].name).append(": ").append(request.headers[i].value) += '\n';
  }
  for (const auto& [name, value] : request.query) text += name + '=' + value + '\n';
  return text;
}

// Reads as a connection does: whatever has arrived and was not consumed, again and again.
Result read_in_pieces(std::string_view input, std::size_t piece) {
  Result result;
  RequestParser parser{tb::http::HeadLimits{}};
  std::size_t begin = 0;
  std::size_t end = 0;
  std::vector<char> out(std::min<std::size_t>(piece, 4096));
  const auto more = [&] {
    if (end == input.size()) return false;
    end = std::min(input.size(), end + piece);
    return true;
  };
  try {
    for (;;) {
      parser.reset();
      std::size_t used = 0;
      while ((used = parser.parse_head(input.substr(begin, end - begin))) == 0) {
        if (!more()) return result;
      }
      begin += used;
      Message message{.head = describe(parser.request()), .body = {}, .end = 0};
      while (!parser.body_done()) {
        const auto progress = parser.parse_body(input.substr(begin, end - begin), out);
        begin += progress.consumed;
        message.body.append(out.data(), progress.produced);
        if (progress.consumed == 0 && !parser.body_done() && !more()) return result;
      }
      message.end = begin;
      result.messages.push_back(std::move(message));
    }
  } catch (const HttpError&) {
    result.failed = true;
  }
  return result;
}

[[noreturn]] void disagree(const char* what) {
  std::fprintf(stderr, "disagreement: %s\n", what);
  std::abort();
}

void ask_beast(std::string_view input, const Result& result) {
  namespace beast = boost::beast::http;
  std::size_t begin = 0;
  for (const Message& message : result.messages) {
    std::string_view bytes = input.substr(begin, message.end - begin);
    begin = message.end;
    if (bytes.starts_with("\r\n")) bytes.remove_prefix(2);
    beast::request_parser<beast::string_body> parser;
    parser.eager(true);
    parser.body_limit(boost::none);
    parser.header_limit(1 << 30);
    boost::beast::error_code error;
    const std::size_t used = parser.put(boost::asio::buffer(bytes.data(), bytes.size()), error);
    if (error || !parser.is_done()) disagree("Beast refuses it");
    if (used != bytes.size()) disagree("Beast sees another end");
    if (parser.get().body() != message.body) disagree("Beast sees another body");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = 1 + data[0] % 64;
  const std::string_view input{reinterpret_cast<const char*>(data) + 1, size - 1};
  const Result whole = read_in_pieces(input, std::max<std::size_t>(input.size(), 1));
  if (whole != read_in_pieces(input, piece)) disagree("pieces of another size");
  ask_beast(input, whole);
  return 0;
}
