// SPDX-License-Identifier: Apache-2.0
#include "cluster/address.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>

#include "http/multipart.h"

namespace tb::cluster {
namespace {

namespace json = boost::json;

// A page's WebSocket has its token in the last one. All of them are passed on: who sends two is
// refused, and not taken for either.
constexpr std::string_view kCaller[] = {"Host", "Authorization", "X-API-Key",
                                        "Sec-WebSocket-Protocol"};

// Sessions are named by UUIDs, wherever in a path.
bool is_session(std::string_view word) {
  if (word.size() != 36) return false;
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    const bool hex = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (dash ? c != '-' : !hex) return false;
  }
  return true;
}

void note(Addressee& addressee, std::string_view name, std::string_view value) {
  if (name == "session_id" && addressee.session.empty()) addressee.session = value;
  if (name == "thread_id" && addressee.thread.empty()) addressee.thread = value;
}

// Sees the text go by, and remembers the strings at its top that we look for.
struct TopStrings {
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);
  using Text = json::string_view;
  using Problem = json::error_code;
  static constexpr std::size_t kLongest = 4096;  // names are shorter

  Addressee found;
  int depth = 0;
  std::string key;
  std::string value;

  bool wanted() const { return depth == 1 && (key == "session_id" || key == "thread_id"); }
  void add(std::string& to, Text part) const {
    if (depth == 1 && to.size() + part.size() <= kLongest) to.append(part.data(), part.size());
  }
  bool open() {
    ++depth;
    key.clear();
    return true;
  }
  bool close() {
    --depth;
    key.clear();
    return true;
  }
  bool other() {
    key.clear();
    return true;
  }

  bool on_document_begin(Problem&) { return true; }
  bool on_document_end(Problem&) { return true; }
  bool on_object_begin(Problem&) { return open(); }
  bool on_object_end(std::size_t, Problem&) { return close(); }
  bool on_array_begin(Problem&) { return open(); }
  bool on_array_end(std::size_t, Problem&) { return close(); }
  bool on_key_part(Text part, std::size_t, Problem&) {
    add(key, part);
    return true;
  }
  bool on_key(Text part, std::size_t, Problem&) {
    add(key, part);
    value.clear();
    return true;
  }
  bool on_string_part(Text part, std::size_t, Problem&) {
    if (wanted()) add(value, part);
    return true;
  }
  bool on_string(Text part, std::size_t, Problem&) {
    if (wanted()) {
      add(value, part);
      note(found, key, value);
    }
    return other();
  }
  bool on_number_part(Text, Problem&) { return true; }
  bool on_int64(std::int64_t, Text, Problem&) { return other(); }
  bool on_uint64(std::uint64_t, Text, Problem&) { return other(); }
  bool on_double(double, Text, Problem&) { return other(); }
  bool on_bool(bool, Problem&) { return other(); }
  bool on_null(Problem&) { return other(); }
  bool on_comment_part(Text, Problem&) { return true; }
  bool on_comment(Text, Problem&) { return true; }
};

Addressee read_json(std::string_view begun) {
  json::basic_parser<TopStrings> parser{json::parse_options{}};
  json::error_code error;
  parser.write_some(true, begun.data(), begun.size(), error);
  return parser.handler().found;  // what is wrong with it, the worker says
}

Addressee read_form(std::string_view boundary, std::string_view begun) {
  Addressee found;
  http::MultipartParser parser{boundary};
  std::string value;
  try {
    for (;;) {
      switch (parser.next(begun)) {
        case http::MultipartParser::Event::part: value.clear(); break;
        case http::MultipartParser::Event::data:
          if (value.size() + parser.data().size() <= TopStrings::kLongest) {
            value.append(parser.data());
          }
          break;
        case http::MultipartParser::Event::part_end:
          if (!parser.part().filename) note(found, parser.part().name, value);
          break;
        default: return found;
      }
    }
  } catch (const http::HttpError&) {
    return found;
  }
}

}  // namespace

Addressee read_target(const http::Request& request) {
  Addressee found;
  std::string_view path = request.path;
  const bool hooks = path.starts_with("/api/webhooks/");  // what these name are deliveries
  while (!path.empty() && !hooks) {
    const std::size_t end = std::min(path.find('/'), path.size());
    if (found.session.empty() && is_session(path.substr(0, end))) {
      found.session = path.substr(0, end);
    }
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  for (const http::Parameter& one : request.query) note(found, one.name, one.value);
  return found;
}

Addressee read_body(const http::Request& request, std::string_view begun) {
  const auto type = request.headers.find("Content-Type");
  try {
    if (type) {
      if (const auto boundary = http::find_boundary(*type)) return read_form(*boundary, begun);
    }
  } catch (const http::HttpError&) {
    return {};
  }
  return read_json(begun);
}

std::vector<http::Header> caller_of(const http::Request& request) {
  std::vector<http::Header> headers;
  for (std::size_t i = 0; i < request.headers.size(); ++i) {
    const http::Headers::Field field = request.headers[i];
    const bool tells = std::any_of(
        std::begin(kCaller), std::end(kCaller),
        [&](std::string_view name) { return http::equal_ignoring_case(name, field.name); });
    if (tells) headers.push_back({std::string{field.name}, std::string{field.value}});
  }
  return headers;
}

std::string credentials_in(const std::vector<http::Header>& caller) {
  std::string text;
  for (const http::Header& one : caller) {
    if (!http::equal_ignoring_case(one.name, "Host")) text += one.name + ":" + one.value + "\n";
  }
  return text;
}

bool creates_session(const http::Request& request) {
  if (request.method != "POST") return false;
  std::string_view path = request.path;
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path == "/create_session" || path == "/api/sessions";
}

}  // namespace tb::cluster
