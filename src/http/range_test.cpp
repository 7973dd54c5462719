// SPDX-License-Identifier: Apache-2.0
#include "http/range.h"

#include <gtest/gtest.h>

namespace tb::http {
namespace {

constexpr std::uint64_t kMost = ~std::uint64_t{0};

std::string describe(const Headers& headers, std::uint64_t size, const Validators& file = {}) {
  try {
    const Slice slice = select_range(headers, size, file);
    if (slice.status == 200) {
      EXPECT_EQ(slice.first, 0u);
      EXPECT_EQ(slice.length, size);
      EXPECT_EQ(slice.content_range, "");
      return "whole";
    }
    return std::to_string(slice.first) + '+' + std::to_string(slice.length) + ' ' +
           slice.content_range;
  } catch (const HttpError& error) {
    EXPECT_EQ(error.status(), 416);
    EXPECT_EQ(error.headers().at(0).name, "Content-Range");
    return error.headers().at(0).value;
  }
}

std::string of(const std::string& range, std::uint64_t size = 10) {
  Headers headers;
  headers.add("Range", range);
  return describe(headers, size);
}

TEST(Range, PicksABytesRange) {
  EXPECT_EQ(of("bytes=0-0"), "0+1 bytes 0-0/10");
  EXPECT_EQ(of("bytes=2-5"), "2+4 bytes 2-5/10");
  EXPECT_EQ(of("Bytes= 2-5 "), "2+4 bytes 2-5/10");
  EXPECT_EQ(of("bytes=2-"), "2+8 bytes 2-9/10");
  EXPECT_EQ(of("bytes=0-"), "0+10 bytes 0-9/10");
  EXPECT_EQ(of("bytes=5-99"), "5+5 bytes 5-9/10");
  EXPECT_EQ(of("bytes=9-99999999999999999999999"), "9+1 bytes 9-9/10");
  EXPECT_EQ(of("bytes=-3"), "7+3 bytes 7-9/10");
  EXPECT_EQ(of("bytes=-99"), "0+10 bytes 0-9/10");
  EXPECT_EQ(of("bytes=0-18446744073709551615", kMost),
            "0+18446744073709551615 bytes 0-18446744073709551614/18446744073709551615");
}

TEST(Range, WithoutAByteIsRefused) {
  for (const char* range : {"bytes=10-", "bytes=10-10", "bytes=99-100", "bytes=-0",
                            "bytes=99999999999999999999-", "bytes=18446744073709551615-"}) {
    EXPECT_EQ(of(range), "bytes */10") << range;
  }
  for (const char* range : {"bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0"}) {
    EXPECT_EQ(of(range, 0), "bytes */0") << range;
  }
}

TEST(Range, ThatIsNotUnderstoodIsIgnored) {
  for (const char* range :
       {"", "bytes", "bytes=", "bytes=-", "bytes=5", "bytes=5-2", "bytes=a-b", "bytes=+1-2",
        "bytes=1--2", "bytes=--2", "bytes=1 - 2", "bytes=0x1-2", "bytes=0-1,3-4", "bytes=0-1,",
        "lines=0-1", "bytes 0-1", "bytes=1-2-3"}) {
    EXPECT_EQ(of(range), "whole") << range;
  }
  Headers twice;
  twice.add("Range", "bytes=0-1");
  twice.add("range", "bytes=2-3");
  EXPECT_EQ(describe(twice, 10), "whole");
  EXPECT_EQ(describe(Headers{}, 10), "whole");
}

TEST(Range, IsForTheFileThatIfRangeNames) {
  const Validators file{.etag = "\"v1\"", .last_modified = "Sun, 06 Nov 1994 08:49:37 GMT"};
  const struct {
    const char* condition;
    bool current;
  } rows[] = {
      {"\"v1\"", true},
      {"\"v2\"", false},
      {"W/\"v1\"", false},
      {"Sun, 06 Nov 1994 08:49:37 GMT", true},
      {"v1", false},
      {"", false},
      {"Sun, 06 Nov 1994 08:49:38 GMT", false},
  };
  for (const auto& row : rows) {
    Headers headers;
    headers.add("Range", "bytes=0-1");
    headers.add("If-Range", row.condition);
    EXPECT_EQ(describe(headers, 10, file), row.current ? "0+2 bytes 0-1/10" : "whole")
        << row.condition;
    EXPECT_EQ(describe(headers, 10), "whole");  // A file without validators is never current.
  }
  // A weak one promises no equal bytes, even if it is the same.
  Headers weak;
  weak.add("Range", "bytes=0-1");
  weak.add("If-Range", "W/\"v1\"");
  EXPECT_EQ(describe(weak, 10, {.etag = "W/\"v1\"", .last_modified = {}}), "whole");
}

}  // namespace
}  // namespace tb::http
