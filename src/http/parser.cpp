// SPDX-License-Identifier: Apache-2.0
#include "http/parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <charconv>
#include <cstring>
#include <limits>

#include "http/chars.h"
#include "http/target.h"

namespace tb::http {
namespace {

namespace beast = boost::beast::http;
using BeastError = boost::beast::error_code;
using BeastView = boost::beast::string_view;

[[noreturn]] void bad(const char* text) { throw HttpError{400, text}; }

constexpr std::string_view kMethods[] = {"GET",   "HEAD",   "POST",   "PUT",
                                         "PATCH", "DELETE", "OPTIONS"};

// Beast's parser, writing straight into a Request. It reads heads only: `skip(true)`.
class HeadReader final : public beast::basic_parser<true> {
 public:
  explicit HeadReader(Request& request) : request_(request) {
    header_limit(std::numeric_limits<std::uint32_t>::max());  // The scanner has counted already.
    skip(true);
  }

 private:
  void on_request_impl(beast::verb, BeastView method, BeastView target, int version,
                       BeastError&) override {
    request_.method.assign(method.data(), method.size());
    request_.target.assign(target.data(), target.size());
    request_.version = version;
  }
  void on_field_impl(beast::field, BeastView name, BeastView value, BeastError&) override {
    request_.headers.add({name.data(), name.size()}, {value.data(), value.size()});
  }
  void on_response_impl(int, BeastView, int, BeastError&) override {}
  void on_header_impl(BeastError&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, BeastError&) override {}
  std::size_t on_body_impl(BeastView body, BeastError&) override { return body.size(); }
  void on_chunk_header_impl(std::uint64_t, BeastView, BeastError&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, BeastView body, BeastError&) override {
    return body.size();
  }
  void on_finish_impl(BeastError&) override {}

  Request& request_;
};

std::uint64_t parse_length(std::string_view text) {
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  const bool good = error == std::errc{} && end == text.data() + text.size();
  if (!good || length > std::numeric_limits<std::int64_t>::max()) {
    bad("Content-Length is not a number");
  }
  return length;
}

// The headers that decide how a request is read, met in one walk over all of them.
struct Framing {
  int hosts = 0;
  int lengths = 0;
  int encodings = 0;        // Transfer-Encoding.
  bool compressed = false;  // A Content-Encoding other than identity.
  bool expects = false;     // Expect: 100-continue.
  bool expects_other = false;
  std::string_view host, length, encoding;

  explicit Framing(const Headers& headers) {
    for (std::size_t i = 0; i < headers.size(); ++i) take(headers[i]);
  }

  void take(const Headers::Field& field) {
    // Sizes first: most headers are none of these.
    switch (field.name.size()) {
      case 4:
        if (is(field, "host")) host = field.value, ++hosts;
        break;
      case 6:
        if (is(field, "expect")) (is_value(field, "100-continue") ? expects : expects_other) = true;
        break;
      case 14:
        if (is(field, "content-length")) length = field.value, ++lengths;
        break;
      case 16:
        if (is(field, "content-encoding") && !is_value(field, "identity")) compressed = true;
        break;
      case 17:
        if (is(field, "transfer-encoding")) encoding = field.value, ++encodings;
        break;
    }
  }

  static bool is(const Headers::Field& field, std::string_view name) {
    return equal_ignoring_case(field.name, name);
  }
  static bool is_value(const Headers::Field& field, std::string_view value) {
    return equal_ignoring_case(field.value, value);
  }
};

void check_host(const Framing& framing, int version) {
  if (framing.hosts > 1) bad("The request has more than one Host header");
  if (framing.hosts == 0 && version >= 11) bad("The request has no Host header");
  if (!all_in(kHostChars, framing.host)) bad("The Host header is not a host");
}

void check_encoding(const Framing& framing, int version) {
  if (framing.encodings == 0) return;
  if (framing.lengths > 0) bad("The request has both Content-Length and Transfer-Encoding");
  if (version < 11) bad("Transfer-Encoding is not part of HTTP/1.0");
  if (framing.encodings > 1 || !equal_ignoring_case(framing.encoding, "chunked")) {
    bad("The only Transfer-Encoding taken is chunked");
  }
}

void check_method(std::string_view method) {
  if (std::find(std::begin(kMethods), std::end(kMethods), method) == std::end(kMethods)) {
    throw HttpError{405, "Method Not Allowed"};
  }
}

}  // namespace

void RequestParser::reset() {
  scanner_.reset();
  request_.method.clear();
  request_.target.clear();
  request_.path.clear();
  request_.query.clear();
  request_.version = 11;
  request_.headers.clear();
  request_.id.clear();
  chunks_ = {};
  skipped_ = 0;
  length_ = left_ = 0;
  chunked_ = keep_alive_ = expects_continue_ = false;
}

void RequestParser::read_head(std::string_view head) {
  HeadReader reader{request_};
  BeastError error;
  const std::size_t used = reader.put(boost::asio::buffer(head.data(), head.size()), error);
  if (error || !reader.is_header_done() || used != head.size() ||
      request_.headers.size() != scanner_.fields()) {
    bad("The request head is malformed");
  }
  keep_alive_ = reader.keep_alive();
}

void RequestParser::check_framing() {
  const Framing framing{request_.headers};
  check_host(framing, request_.version);
  check_encoding(framing, request_.version);
  if (framing.lengths > 1) bad("The request has more than one Content-Length");
  if (framing.lengths == 1) length_ = parse_length(framing.length);
  chunked_ = framing.encodings == 1;
  left_ = length_;

  check_method(request_.method);
  if (framing.compressed && !body_done()) {
    throw HttpError{415, "Compressed request bodies are not supported"};
  }
  if (request_.version < 11) return;  // HTTP/1.0 knows no expectations.
  if (framing.expects_other) throw HttpError{417, "The only expectation met is 100-continue"};
  expects_continue_ = framing.expects && !body_done();
}

std::size_t RequestParser::parse_head(std::string_view bytes) {
  // RFC 9112, 2.2: old clients send a line break after a body.
  if (skipped_ == 0 && bytes.starts_with('\r')) {
    if (bytes.size() < 2) return 0;
    if (bytes[1] == '\n') skipped_ = 2;
  }
  bytes.remove_prefix(skipped_);
  const std::size_t size = scanner_.scan(bytes);
  if (size == 0) return 0;
  read_head(bytes.substr(0, size));
  check_framing();
  parse_target(request_);
  return skipped_ + size;
}

std::optional<std::uint64_t> RequestParser::body_length() const {
  return chunked_ ? std::nullopt : std::optional{length_};
}

std::optional<std::uint64_t> RequestParser::body_left() const {
  return chunked_ ? std::nullopt : std::optional{left_};
}

ChunkDecoder::Progress RequestParser::parse_body(std::string_view bytes, std::span<char> out) {
  if (chunked_) return chunks_.decode(bytes, out);
  const auto size =
      static_cast<std::size_t>(std::min<std::uint64_t>(left_, std::min(bytes.size(), out.size())));
  if (size != 0) std::memcpy(out.data(), bytes.data(), size);
  left_ -= size;
  return {size, size};
}

}  // namespace tb::http
