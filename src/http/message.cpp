// SPDX-License-Identifier: Apache-2.0
#include "http/message.h"

#include <algorithm>
#include <array>

namespace tb::http {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

void append_json_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += byte < 0x7f ? c : '?';
    }
  }
  out += '"';
}

struct Phrase {
  int status;
  std::string_view text;
};

constexpr Phrase kPhrases[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {425, "Too Early"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return lower(x) == lower(y); });
}

void Headers::clear() {
  bytes_.clear();
  spans_.clear();
}

void Headers::add(std::string_view name, std::string_view value) {
  spans_.push_back({static_cast<std::uint32_t>(bytes_.size()),
                    static_cast<std::uint32_t>(name.size()),
                    static_cast<std::uint32_t>(value.size())});
  bytes_.append(name).append(value);
}

Headers::Field Headers::operator[](std::size_t index) const {
  const Span& span = spans_[index];
  const char* start = bytes_.data() + span.start;
  return {{start, span.name_size}, {start + span.name_size, span.value_size}};
}

std::optional<std::string_view> Headers::find(std::string_view name) const {
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    const Field field = (*this)[i];
    if (equal_ignoring_case(field.name, name)) return field.value;
  }
  return std::nullopt;
}

std::size_t Headers::count(std::string_view name) const {
  std::size_t found = 0;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    if (equal_ignoring_case((*this)[i].name, name)) ++found;
  }
  return found;
}

const std::string* Request::find_query(std::string_view name) const {
  auto found = std::find_if(query.begin(), query.end(),
                            [&](const Parameter& parameter) { return parameter.name == name; });
  return found == query.end() ? nullptr : &found->value;
}

const std::string* Response::find(std::string_view name) const {
  auto found = std::find_if(headers.begin(), headers.end(), [&](const Header& header) {
    return equal_ignoring_case(header.name, name);
  });
  return found == headers.end() ? nullptr : &found->value;
}

std::string_view reason_phrase(int status) {
  for (const Phrase& phrase : kPhrases) {
    if (phrase.status == status) return phrase.text;
  }
  return "Unknown";
}

Response json_response(int status, std::string json) {
  Response response;
  response.status = status;
  response.content_type = "application/json";
  response.body = std::move(json);
  return response;
}

Response error_response(int status, std::string_view text) {
  std::string json = "{\"error\":";
  append_json_string(json, text);
  json += ",\"detail\":";
  append_json_string(json, text);
  json += '}';
  return json_response(status, std::move(json));
}

}  // namespace tb::http
