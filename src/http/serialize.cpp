// SPDX-License-Identifier: Apache-2.0
#include "http/serialize.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "http/chars.h"

namespace tb::http {
namespace {

constexpr std::string_view kOwnHeaders[] = {"content-length", "transfer-encoding", "date"};

void append_number(std::string& out, std::uint64_t number) {
  char digits[20];
  const auto result = std::to_chars(digits, digits + sizeof digits, number);
  out.append(digits, result.ptr);
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

void check_field(std::string_view name, std::string_view value) {
  const bool own = std::any_of(std::begin(kOwnHeaders), std::end(kOwnHeaders),
                               [&](auto header) { return equal_ignoring_case(header, name); });
  if (own || name.empty() || !all_in(kTokenChars, name) || !all_in(kValueChars, value)) {
    throw Error{Code::internal, "a response header that may not be sent"};
  }
}

void append_status_line(std::string& out, const Response& response) {
  const bool printable = !response.reason.empty() && all_in(kPrintableChars, response.reason);
  out += "HTTP/1.1 ";
  append_number(out, static_cast<std::uint64_t>(response.status));
  out += ' ';
  out.append(printable ? std::string_view{response.reason} : reason_phrase(response.status));
  out += "\r\n";
}

void append_framing(std::string& out, const HeadFraming& framing, bool upgrades) {
  if (framing.length) {
    out += "Content-Length: ";
    append_number(out, *framing.length);
    out += "\r\n";
  }
  if (framing.chunked) out += "Transfer-Encoding: chunked\r\n";
  if (framing.close) out += "Connection: close\r\n";
  if (upgrades) out += "Connection: Upgrade\r\n";
  if (framing.keep_alive) out += "Connection: keep-alive\r\n";
  if (!framing.date.empty()) append_field(out, "Date", framing.date);
  if (!framing.request_id.empty()) append_field(out, "X-Request-Id", framing.request_id);
  if (!framing.hsts.empty()) append_field(out, "Strict-Transport-Security", framing.hsts);
  for (const Header& header : framing.added) append_field(out, header.name, header.value);
}

bool is_connection(const Header& header) { return equal_ignoring_case(header.name, "connection"); }

}  // namespace

bool status_has_body(int status) { return status >= 200 && status != 204 && status != 304; }

bool asks_to_close(const Response& response) {
  return std::any_of(response.headers.begin(), response.headers.end(), [](const Header& header) {
    return is_connection(header) && equal_ignoring_case(header.value, "close");
  });
}

void append_head(std::string& out, const Response& response, const HeadFraming& framing) {
  const bool switches = response.status == 101 && framing.upgrade;
  if ((response.status < 200 && !switches) || response.status > 999) {
    throw Error{Code::internal, "a response status that may not be sent"};
  }
  if (!all_in(kValueChars, response.content_type)) {
    throw Error{Code::internal, "a content type that may not be sent"};
  }
  for (const Header& header : response.headers) check_field(header.name, header.value);
  for (const Header& header : framing.added) check_field(header.name, header.value);

  append_status_line(out, response);
  if (!response.content_type.empty()) append_field(out, "Content-Type", response.content_type);
  for (const Header& header : response.headers) {
    if (!is_connection(header)) append_field(out, header.name, header.value);
  }
  // Whoever sends Upgrade must name it there too (RFC 9110, 7.8).
  append_framing(out, framing, response.find("Upgrade") != nullptr);
  out += "\r\n";
}

std::string serialize_request_head(std::string_view method, std::string_view target,
                                   std::string_view host, const std::vector<Header>& headers,
                                   std::uint64_t length) {
  bool good = !method.empty() && all_in(kTokenChars, method) && !target.empty() &&
              all_in(kTargetChars, target);
  std::string out;
  out.reserve(256);
  out.append(method).append(" ").append(target).append(" HTTP/1.1");
  const bool named = std::any_of(headers.begin(), headers.end(), [](const Header& header) {
    return equal_ignoring_case(header.name, "host");
  });
  if (!named) out.append("\r\nHost: ").append(host);
  for (const Header& header : headers) {
    good = good && !header.name.empty() && all_in(kTokenChars, header.name) &&
           all_in(kValueChars, header.value);
    out.append("\r\n").append(header.name).append(": ").append(header.value);
  }
  if (!good) throw Error{Code::invalid, "a request that may not be sent"};
  if (length > 0 || !(method == "GET" || method == "HEAD")) {
    out.append("\r\nContent-Length: ").append(std::to_string(length));
  }
  return out.append("\r\n\r\n");
}

std::string serialize_request(std::string_view method, std::string_view target,
                              std::string_view host, const std::vector<Header>& headers,
                              std::string_view body) {
  return serialize_request_head(method, target, host, headers, body.size()).append(body);
}

std::string http_date(std::time_t when) {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm parts{};
  ::gmtime_r(&when, &parts);
  char numbers[32];
  // strftime's numbers do not depend on the locale; its names do.
  const std::size_t size = std::strftime(numbers, sizeof numbers, "%d %Y %H:%M:%S", &parts);
  const std::string_view text{numbers, size};
  std::string date = kDays[parts.tm_wday];
  date.append(", ").append(text.substr(0, 3)).append(kMonths[parts.tm_mon]);
  date.append(text.substr(2)).append(" GMT");
  return date;
}

}  // namespace tb::http
