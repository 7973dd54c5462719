// SPDX-License-Identifier: Apache-2.0
// What travels over HTTP, as plain values: a request's head, a response, an error with a status.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tb::http {

struct Header {
  std::string name;
  std::string value;
};

// ASCII only, as HTTP compares names.
bool equal_ignoring_case(std::string_view a, std::string_view b);

// The headers of a request, in the order of their arrival, in one block of memory that is reused
// from request to request. Views that it gives are valid until the next add() or clear().
class Headers {
 public:
  struct Field {
    std::string_view name;
    std::string_view value;
  };

  void clear();
  void add(std::string_view name, std::string_view value);
  std::size_t size() const { return spans_.size(); }
  Field operator[](std::size_t index) const;
  // The first header of this name, in any case of letters.
  std::optional<std::string_view> find(std::string_view name) const;
  std::size_t count(std::string_view name) const;

 private:
  struct Span {
    std::uint32_t start;
    std::uint32_t name_size;
    std::uint32_t value_size;
  };
  std::string bytes_;
  std::vector<Span> spans_;
};

struct Parameter {
  std::string name;
  std::string value;
};

// The head of a request. The server hands out only valid ones: a method that it knows, a target
// of printable ASCII, a path that begins with '/' (or is "*" for OPTIONS) and holds no NUL.
struct Request {
  std::string method;
  std::string target;            // As sent: split this one where "%2F" must differ from "/".
  std::string path;              // Percent-decoded, without the query. Dot segments are kept.
  std::vector<Parameter> query;  // Form-style: percent-decoded, '+' is a space.
  int version = 11;              // 10 or 11.
  Headers headers;
  std::string peer;       // The address of the other end, without port; "unix" for a unix socket.
  std::string peer_name;  // The subject of its certificate, if it has shown a good one.
  // Names this request in logs and in the answer's X-Request-Id: 1 to 64 of [A-Za-z0-9._-]. The
  // client's own X-Request-Id if it is such a name.
  std::string id;

  // The first parameter of this name, or null.
  const std::string* find_query(std::string_view name) const;
};

// `reason` is sent when it is printable ASCII, else (or empty) the usual phrase of the status.
// Content-Length, Transfer-Encoding and Date are the server's to write and may not be in
// `headers`; "Connection: close" there ends the connection after this response.
struct Response {
  int status = 200;
  std::string reason;
  std::string content_type;
  std::vector<Header> headers;
  std::string body;

  // The first header of this name, or null. Content-Type is in `content_type`.
  const std::string* find(std::string_view name) const;
};

// Ends a request with this status, these headers and the body {"error": text, "detail": text}.
// What `text` says is shown to the client.
class HttpError : public std::exception {
 public:
  HttpError(int status, std::string text, std::vector<Header> headers = {})
      : status_(status), text_(std::move(text)), headers_(std::move(headers)) {}
  int status() const { return status_; }
  const std::string& text() const { return text_; }
  const std::vector<Header>& headers() const { return headers_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  int status_;
  std::string text_;
  std::vector<Header> headers_;
};

// The usual phrase; "Unknown" for a status without one.
std::string_view reason_phrase(int status);

// `json` is sent as it is: it must be JSON already.
Response json_response(int status, std::string json);

// {"error": text, "detail": text}; bytes outside ASCII become '?'.
Response error_response(int status, std::string_view text);

}  // namespace tb::http
