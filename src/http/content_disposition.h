// SPDX-License-Identifier: Apache-2.0
// File names in headers: of the parts that a form uploads, and of what we offer for download.
//
// What clients send for a part whose file is named a"b\c (captured from them, or their source):
//   browsers, curl since 7.81, urllib3 2 (requests)    filename="a%22b\c"
//   urllib3 1.25 and 1.26 (requests)                   filename="a%22b\\c"
//   curl before 7.81 or with --form-escape             filename="a\"b\\c"
//   urllib3 before 1.25, for names beyond ASCII        filename*=utf-8''%C3%A9
// CR and LF are %0D and %0A wherever they are sent, other percent signs are just that, and bytes
// beyond ASCII are raw UTF-8. So a backslash escapes only where every backslash of the value does,
// and a quote after a backslash ends the value when the rest reads like the end or the next
// parameter: the file's name ends with a backslash. Two backslashes in a row from a client that
// doubles none can't be told from one that was doubled, and are taken for that one.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tb::http {

struct FormDisposition {
  std::string name;
  std::optional<std::string> filename;  // May be empty: a form whose file was not chosen.
};

// Reads `form-data; name="…"; filename="…"`. Names are bytes as the client meant them: they may
// hold slashes, control characters and what is no UTF-8. Throws HttpError 400.
FormDisposition parse_form_disposition(std::string_view value);

// `attachment; filename="…"`, with a filename* beside an ASCII stand-in when the name needs it.
// Always one good header value, whatever the name; of a path only the last component is named.
std::string attachment(std::string_view name);

}  // namespace tb::http
