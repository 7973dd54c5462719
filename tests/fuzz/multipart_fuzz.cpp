// SPDX-License-Identifier: Apache-2.0
// Feeds bytes to the multipart parser: it must not crash, pieces of another size must give the same
// parts, data is never longer than what came in, and a good form made of the same bytes must come
// back as it was.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/multipart.h"

namespace {

using tb::http::HttpError;
using tb::http::MultipartParser;
using Event = MultipartParser::Event;

[[noreturn]] void disagree(const char* what) {
  std::fprintf(stderr, "disagreement: %s\n", what);
  std::abort();
}

void describe(std::string& out, MultipartParser& parser, Event event) {
  switch (event) {
    case Event::part:
      out += '[' + parser.part().name + '|' + parser.part().filename.value_or("-") + '|' +
             parser.part().content_type + ']';
      break;
    case Event::data:
      if (parser.data().empty()) disagree("data without bytes");
      out += parser.data();
      break;
    case Event::part_end: out += ';'; break;
    default: break;
  }
}

std::string read_in_pieces(std::string_view boundary, std::string_view body, std::size_t piece) {
  std::string out;
  try {
    MultipartParser parser{boundary};
    while (!body.empty()) {
      // A copy of its own, so that a view that outlives its input is seen.
      const std::string copy{body.substr(0, piece)};
      body.remove_prefix(copy.size());
      std::string_view input = copy;
      for (;;) {
        const Event event = parser.next(input);
        describe(out, parser, event);
        if (event == Event::more || event == Event::end) break;
      }
      if (!input.empty()) disagree("input is left");
    }
    parser.finish();
    out += "end";
  } catch (const HttpError& error) {
    out += error.text();
  }
  return out;
}

}  // namespace

// The first line is a Content-Type, or else a boundary; the rest is the body.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = 1 + data[0] % 32;
  const std::string_view input{reinterpret_cast<const char*>(data) + 1, size - 1};
  const std::string_view line = input.substr(0, input.find('\n'));
  const std::string_view body = input.substr(std::min(line.size() + 1, input.size()));
  std::string boundary{line};
  try {
    if (const auto found = tb::http::find_boundary(line)) boundary = *found;
    MultipartParser{boundary};
  } catch (const HttpError&) {
    return 0;
  }

  const std::string whole = read_in_pieces(boundary, body, std::max<std::size_t>(body.size(), 1));
  if (whole != read_in_pieces(boundary, body, 1)) disagree("bytes");
  if (whole != read_in_pieces(boundary, body, piece)) disagree("pieces of another size");

  if (body.find("--" + boundary) != body.npos) return 0;
  const std::string form = "--" + boundary + "\r\nContent-Disposition: form-data; name=a\r\n\r\n" +
                           std::string{body} + "\r\n--" + boundary + "--\r\n";
  if (read_in_pieces(boundary, form, piece) != "[a|-|]" + std::string{body} + ";end") {
    disagree("data comes back changed");
  }
  return 0;
}
