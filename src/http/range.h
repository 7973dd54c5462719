// SPDX-License-Identifier: Apache-2.0
// Which bytes of a file a request wants (RFC 9110, section 14).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/message.h"

namespace tb::http {

// What a file is called in If-Range: its ETag with the quotes, and when it last changed, as
// http_date() writes it. Empty: it has none.
struct Validators {
  std::string_view etag;
  std::string_view last_modified;
};

struct Slice {
  int status = 200;  // 200: the whole, 206: a part.
  std::uint64_t first = 0;
  std::uint64_t length = 0;
  std::string content_range;  // The value of Content-Range; empty for a 200.
};

// What of a file of `size` bytes to send. The whole for a request without Range, with one that is
// malformed, in another unit or asks for several ranges (all of which RFC 9110 lets us ignore), or
// whose If-Range does not name the file as it is now. The method is the caller's to check: only
// GET and, in our API, the POST that downloads have ranges. Throws HttpError 416, with the size in
// Content-Range, for a range without a byte of the file.
Slice select_range(const Headers& headers, std::uint64_t size, const Validators& file = {});

}  // namespace tb::http
