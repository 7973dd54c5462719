// SPDX-License-Identifier: Apache-2.0
#include "http/target.h"

#include "http/chars.h"

namespace tb::http {
namespace {

[[noreturn]] void bad(const char* text) { throw HttpError{400, text}; }

// Appends the decoded text to `out`; false on a bad escape.
bool decode_into(std::string& out, std::string_view text, bool plus_is_space) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      if (text.size() - i < 3) return false;
      const int high = hex_value(text[i + 1]);
      const int low = hex_value(text[i + 2]);
      if (high < 0 || low < 0) return false;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return true;
}

std::string decode_parameter(std::string_view text) {
  auto decoded = percent_decode(text, true);
  if (!decoded) bad("The query has a bad percent escape");
  return std::move(*decoded);
}

// Cuts "http://host" off an absolute target. It must name the host that the Host header names:
// a server before us that believes the other one of the two would see another request.
std::string_view without_authority(std::string_view target, const Headers& headers) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const std::string_view authority = target.substr(0, target.find_first_of("/?"));
    const auto host = headers.find("host");
    if (authority.empty() || !host || !equal_ignoring_case(authority, *host)) {
      bad("The target and the Host header name different hosts");
    }
    return target.substr(authority.size());
  }
  bad("The request target is neither a path nor an http URL");
}

}  // namespace

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  if (!decode_into(out, text, plus_is_space)) return std::nullopt;
  return out;
}

std::vector<Parameter> parse_query(std::string_view query) {
  std::vector<Parameter> parameters;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    Parameter parameter{.name = decode_parameter(pair.substr(0, equals)), .value = {}};
    if (equals != pair.npos) parameter.value = decode_parameter(pair.substr(equals + 1));
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

void parse_target(Request& request) {
  request.path.clear();
  request.query.clear();
  std::string_view rest = request.target;
  if (rest == "*" && request.method == "OPTIONS") {
    request.path = "*";
    return;
  }
  if (rest.find('#') != rest.npos) bad("The request target has a fragment");
  if (!rest.starts_with('/')) rest = without_authority(rest, request.headers);

  const std::size_t mark = rest.find('?');
  const std::string_view path = rest.substr(0, mark);
  if (path.empty()) {
    request.path = "/";
  } else if (!decode_into(request.path, path, false)) {
    bad("The path has a bad percent escape");
  }
  if (request.path.find('\0') != std::string::npos) bad("The path has a NUL");
  if (mark != rest.npos) request.query = parse_query(rest.substr(mark + 1));
}

}  // namespace tb::http
