// SPDX-License-Identifier: Apache-2.0
#include "net/url.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace tb::net {
namespace {

constexpr std::size_t kMaxHost = 253;
constexpr std::size_t kMaxLabel = 63;

[[noreturn]] void refuse(const std::string& why) { throw Error{Code::invalid, why}; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Other programs take 127.1, 0x7f000001, 2130706433 and 0177.0.0.1 for addresses. No domain ends in
// a number, so a name that does is meant to be one of these.
bool ends_in_number(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  std::string_view last = dot == name.npos ? name : name.substr(dot + 1);
  if (std::all_of(last.begin(), last.end(), is_digit)) return true;
  if (!last.starts_with("0x")) return false;
  last.remove_prefix(2);
  const auto hex = [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); };
  return std::all_of(last.begin(), last.end(), hex);
}

void check_label(std::string_view label) {
  if (label.empty() || label.size() > kMaxLabel) {
    refuse("the host has a part that is empty or longer than 63 characters");
  }
  for (const char c : label) {
    if (!is_letter(c) && !is_digit(c) && c != '-' && c != '_') {
      refuse(
          "the host has characters other than letters, digits, '-', '_' and '.': write names "
          "of other alphabets in their xn-- form");
    }
  }
  if (label.front() == '-' || label.back() == '-') refuse("a part of the host begins or ends in -");
}

void check_name(std::string_view name) {
  if (name.size() > kMaxHost) refuse("the host is longer than 253 characters");
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t dot = std::min(name.find('.', start), name.size());
    check_label(name.substr(start, dot - start));
    start = dot + 1;
  }
  if (ends_in_number(name)) {
    refuse("the host is neither a name nor an address: write IPv4 as four decimal numbers");
  }
}

void read_host(std::string_view text, Url& url) {
  if (text.starts_with('[')) {
    const std::string_view inside = text.substr(1, text.size() - 2);
    url.address = parse_address(inside);
    if (inside.find('%') != inside.npos) refuse("an IPv6 address can't have a zone here");
    if (!url.address || !url.address->is_v6()) refuse("what is in [] is no IPv6 address");
    url.host = url.address->to_string();
    return;
  }
  if (text.empty()) refuse("the host is missing");
  std::transform(text.begin(), text.end(), std::back_inserter(url.host), lower);
  url.address = parse_address(url.host);
  if (!url.address) check_name(url.host);
}

std::uint16_t read_port(std::string_view digits) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  if (!whole || port == 0 || port > 65535) refuse("the port must be a number from 1 to 65535");
  return static_cast<std::uint16_t>(port);
}

void read_authority(std::string_view text, Url& url) {
  if (text.find('@') != text.npos) {
    refuse("the URL can't carry a user or a password: callbacks are signed instead");
  }
  std::size_t end = text.find(':');
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == text.npos) refuse("the ] of the IPv6 address is missing");
    end = close + 1 == text.size() ? text.npos : close + 1;
    if (end != text.npos && text[end] != ':') refuse("after ] only a port can follow");
  }
  read_host(text.substr(0, end), url);
  url.port = url.tls ? 443 : 80;
  if (end != text.npos) url.port = read_port(text.substr(end + 1));
}

std::string_view take_scheme(std::string_view text, bool& tls) {
  std::string head;
  const std::string_view start = text.substr(0, 8);
  std::transform(start.begin(), start.end(), std::back_inserter(head), lower);
  tls = head.starts_with("https://");
  if (tls) return text.substr(8);
  if (head.starts_with("http://")) return text.substr(7);
  refuse("the URL must begin with http:// or https://");
}

void check_characters(std::string_view text) {
  if (text.size() > kMaxUrl) refuse("the URL is longer than 2048 characters");
  for (const char c : text) {
    if (c <= ' ' || c > '~' || c == '\\') {
      refuse("the URL has a space, a backslash or a character outside ASCII: write it as %XX");
    }
  }
}

}  // namespace

std::string Url::authority() const {
  const std::string name = address && address->is_v6() ? "[" + host + "]" : host;
  const bool usual = port == (tls ? 443 : 80);
  return usual ? name : name + ":" + std::to_string(port);
}

std::string Url::text() const { return (tls ? "https://" : "http://") + authority() + target; }

Url parse_url(std::string_view text) {
  check_characters(text);
  if (text.find('#') != text.npos) refuse("the URL can't have a fragment (#)");
  Url url;
  const std::string_view rest = take_scheme(text, url.tls);
  const std::size_t end = std::min(rest.find_first_of("/?"), rest.size());
  read_authority(rest.substr(0, end), url);
  url.target = rest.substr(end);
  if (!url.target.starts_with('/')) url.target.insert(0, "/");
  return url;
}

Url parse_redirect(const Url& base, std::string_view location) {
  location = location.substr(0, location.find('#'));  // a browser's business
  if (location.starts_with("//")) {
    return parse_url((base.tls ? "https:" : "http:") + std::string{location});
  }
  if (!location.starts_with('/')) return parse_url(location);
  check_characters(location);
  Url url = base;
  url.target = location;
  return url;
}

void check_destination(const Url& url, const AddressRules& rules) {
  std::string kind;
  if (url.address) {
    kind = rules.refusal(*url.address);
  } else if (url.host == "localhost" || url.host.ends_with(".localhost")) {
    kind = rules.refusal(*parse_address("127.0.0.1"));
  }
  if (!kind.empty()) refuse("nothing is sent to " + url.host + ": the address is " + kind);
}

}  // namespace tb::net
