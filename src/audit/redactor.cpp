// SPDX-License-Identifier: Apache-2.0
#include "audit/redactor.h"

#include "base/error.h"

namespace tb::audit {

Redactor::Redactor(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    std::string error;
    match::Regex& regex = patterns_.emplace_back();
    if (!match::Regex::compile(pattern, {}, regex, error)) {
      throw Error{Code::invalid, "\"" + pattern + "\" is no regular expression: " + error};
    }
  }
}

std::string Redactor::redact(std::string text) {
  for (match::Regex& regex : patterns_) {
    std::string out;
    std::size_t at = 0;
    match::Regex::Span span;
    while (regex.find(text, at, span)) {
      out.append(text, at, span.begin - at).append(kInstead);
      at = span.end;
    }
    if (at == 0) continue;
    out.append(text, at);
    text = std::move(out);
  }
  return text;
}

}  // namespace tb::audit
