// SPDX-License-Identifier: Apache-2.0
// The parameters of a header value: `; name=value; name="value"`.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tb::http {

struct RawParameter {
  std::string_view name;
  std::string_view value;  // Without the quotes; escapes are still in it.
  bool quoted = false;
};

// Cuts the next parameter off `rest`, which begins behind the value or the parameter before it.
// Empty at the end. A quote behind a backslash ends a value only if nothing or another parameter
// follows. Throws HttpError 400 with `complaint` on anything else.
std::optional<RawParameter> take_parameter(std::string_view& rest, const char* complaint);

// The value with its escapes undone, if every backslash in it escapes a quote or a backslash.
std::string unescape(std::string_view value);

// `text` without spaces and tabs at its ends.
std::string_view trim(std::string_view text);

}  // namespace tb::http
