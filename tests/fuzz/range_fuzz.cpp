// SPDX-License-Identifier: Apache-2.0
// Feeds bytes to what a download's headers are made of. A range lies within its file; a name gives
// a header value of printable ASCII with one quoted text in it, and its filename* decodes to the
// name; and a name that was sent in a form as browsers do comes back as it was.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "http/chars.h"
#include "http/content_disposition.h"
#include "http/range.h"
#include "http/target.h"

namespace {

using tb::http::HttpError;

void check_range(const std::string& text, std::uint64_t size) {
  tb::http::Headers headers;
  headers.add("Range", text);
  try {
    const tb::http::Slice slice = tb::http::select_range(headers, size);
    const bool whole = slice.status == 200;
    if (!whole && slice.status != 206) std::abort();
    if (slice.first > size || slice.length > size - slice.first) std::abort();
    if (whole ? slice.length != size : slice.length == 0) std::abort();
    if (whole != slice.content_range.empty()) std::abort();
  } catch (const HttpError& error) {
    if (error.status() != 416) std::abort();
  }
}

void check_attachment(const std::string& name) {
  const std::string value = tb::http::attachment(name);
  if (!tb::http::all_in(tb::http::kPrintableChars, value)) std::abort();
  if (std::count(value.begin(), value.end(), '"') != 2) std::abort();
  constexpr std::string_view kMark = "; filename*=UTF-8''";
  const std::size_t at = value.find(kMark, value.rfind('"'));
  if (at == value.npos) return;
  const auto decoded = tb::http::percent_decode(value.substr(at + kMark.size()));
  if (!decoded || !tb::is_utf8(*decoded) || decoded->find('/') != decoded->npos) std::abort();
  if (tb::is_utf8(name) && name.size() < 255 && !name.ends_with('/') && !name.ends_with(*decoded)) {
    std::abort();
  }
}

// As browsers and urllib3 2 do. What they leave ambiguous is left out: escapes that were part of
// the name, and backslashes in pairs.
void check_form(const std::string& name) {
  if (name.find('%') != name.npos || name.find("\\\\") != name.npos) return;
  std::string sent;
  for (const char c : name) {
    if (c == '"') {
      sent += "%22";
    } else if (c == '\r') {
      sent += "%0D";
    } else if (c == '\n') {
      sent += "%0A";
    } else {
      sent += c;
    }
  }
  const std::string value = "form-data; name=\"file\"; filename=\"" + sent + '"';
  if (tb::http::parse_form_disposition(value).filename != name) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::uint64_t file = 0;
  if (size < sizeof file) return 0;
  std::memcpy(&file, data, sizeof file);
  const std::string text{reinterpret_cast<const char*>(data) + sizeof file, size - sizeof file};
  check_range(text, file);
  check_range("bytes=" + text, file % 100);
  check_attachment(text);
  check_form(text);
  try {
    tb::http::parse_form_disposition("form-data; " + text);
  } catch (const HttpError& error) {
    if (error.status() != 400) std::abort();
  }
  return 0;
}
