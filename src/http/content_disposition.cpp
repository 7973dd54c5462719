// SPDX-License-Identifier: Apache-2.0
#include "http/content_disposition.h"

#include <algorithm>

#include "base/utf8.h"
#include "http/chars.h"
#include "http/message.h"
#include "http/parameters.h"
#include "http/target.h"

namespace tb::http {
namespace {

constexpr const char* kMalformed = "A part has a malformed Content-Disposition";
// attr-char of RFC 8187: what a filename* may hold without an escape.
constexpr CharTable kAttrChars = make_table("!#$&+-.^_`|~", true);
// Longer names than file systems take are cut; the header must not outgrow clients' limits.
constexpr std::size_t kMaxName = 255;

// %22, %0D and %0A to what they stand for.
std::string decode_form_escapes(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view escape = text.substr(i, 3);
    if (escape == "%22") {
      plain += '"';
    } else if (equal_ignoring_case(escape, "%0d")) {
      plain += '\r';
    } else if (equal_ignoring_case(escape, "%0a")) {
      plain += '\n';
    } else {
      plain += text[i];
      continue;
    }
    i += 2;
  }
  return plain;
}

// RFC 8187: charset'language'percent-encoded.
std::string decode_extended(std::string_view value) {
  const std::size_t first = value.find('\'');
  const std::size_t second = first == value.npos ? first : value.find('\'', first + 1);
  if (second == value.npos) throw HttpError{400, kMalformed};
  auto text = percent_decode(value.substr(second + 1));
  if (!text) throw HttpError{400, kMalformed};
  const std::string_view charset = value.substr(0, first);
  if (!equal_ignoring_case(charset, "utf-8") || !is_utf8(*text)) {
    throw HttpError{400, "A part's name is encoded in something else than UTF-8"};
  }
  return std::move(*text);
}

// A parameter that may come plain and extended; the extended one counts, as RFC 6266 has it.
class Named {
 public:
  explicit Named(std::string_view name) : name_(name) {}

  void take(const RawParameter& parameter) {
    std::string_view name = parameter.name;
    const bool extended = name.ends_with('*');
    if (extended) name.remove_suffix(1);
    if (!equal_ignoring_case(name, name_)) return;
    std::optional<std::string>& slot = extended ? extended_ : plain_;
    // Who looks at the other one of two would see another name.
    if (slot) throw HttpError{400, kMalformed};
    slot = extended ? decode_extended(parameter.value)
                    : decode_form_escapes(parameter.quoted ? unescape(parameter.value)
                                                           : std::string{parameter.value});
  }
  std::optional<std::string> get() { return std::move(extended_ ? extended_ : plain_); }

 private:
  std::string_view name_;
  std::optional<std::string> plain_;
  std::optional<std::string> extended_;
};

std::string percent_encode(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (in(kAttrChars, c)) {
      encoded += c;
    } else {
      encoded.append({'%', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  return encoded;
}

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Every character that some client would read differently between quotes becomes '_': a percent
// sign too, since browsers decode it there.
std::string ascii_fallback(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (continues_character(c)) continue;
    const bool good = in(kPrintableChars, c) && c != '"' && c != '\\' && c != '%';
    plain += good ? c : '_';
  }
  return plain;
}

std::string last_component(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  std::string name = to_utf8(std::string{path.substr(path.rfind('/') + 1)});
  if (name.size() > kMaxName) {
    std::size_t end = kMaxName;
    while (continues_character(name[end])) --end;
    name.resize(end);
  }
  return name.empty() ? "download" : name;
}

}  // namespace

FormDisposition parse_form_disposition(std::string_view value) {
  const std::string_view type = trim(value.substr(0, value.find(';')));
  if (!equal_ignoring_case(type, "form-data")) throw HttpError{400, kMalformed};
  std::string_view rest = value.substr(std::min(value.find(';'), value.size()));
  Named name{"name"};
  Named filename{"filename"};
  while (const auto parameter = take_parameter(rest, kMalformed)) {
    name.take(*parameter);
    filename.take(*parameter);
  }
  auto found = name.get();
  if (!found) throw HttpError{400, "A part has no name"};
  return {.name = std::move(*found), .filename = filename.get()};
}

std::string attachment(std::string_view path) {
  const std::string name = last_component(path);
  const std::string plain = ascii_fallback(name);
  std::string value = "attachment; filename=\"" + plain + '"';
  if (plain != name) value += "; filename*=UTF-8''" + percent_encode(name);
  return value;
}

}  // namespace tb::http
