// SPDX-License-Identifier: Apache-2.0
#include "http/content_disposition.h"

#include <gtest/gtest.h>

#include "http/chars.h"
#include "http/message.h"

namespace tb::http {
namespace {

std::string name_in(const std::string& parameters) {
  return parse_form_disposition("form-data; name=\"file\"; " + parameters)
      .filename.value_or("(none)");
}

TEST(FormDisposition, ReadsNamesAsClientsSendThem) {
  const struct {
    const char* sent;
    const char* name;
  } rows[] = {
      {"", "(none)"},
      {"filename=\"\"", ""},
      {"filename=plain.txt", "plain.txt"},
      {"FileName = x", nullptr},  // No space may stand there.
      {"filename=\"a b;c=d.txt\"", "a b;c=d.txt"},
      {"filename=\"\xc3\xa9/\xe4\xbd\xa0.txt\"", "\xc3\xa9/\xe4\xbd\xa0.txt"},
      {"filename=\"a%22b%0D%0Ac%0d%0a\"", "a\"b\r\nc\r\n"},
      {"filename=\"100%.txt\"", "100%.txt"},
      {"filename=\"%41%2e%2F%00%2\"", "%41%2e%2F%00%2"},
      {R"(filename="a%22b\c")", R"(a"b\c)"},     // urllib3 2, browsers, curl.
      {R"(filename="a%22b\\c")", R"(a"b\c)"},    // urllib3 1.26.
      {R"(filename="a\"b\\c")", R"(a"b\c)"},     // curl before 7.81.
      {R"(filename="\\a\b\\")", R"(\\a\b\\)"},   // Doubled nowhere: a lone one shows it.
      {R"(filename="ends\")", R"(ends\)"},       // urllib3 2.
      {R"(filename="ends\"; x=y)", R"(ends\)"},  // The same, and a parameter.
      {R"(filename="ends\\")", R"(ends\)"},      // urllib3 1.26.
      {R"(filename="a\";b.txt")", R"(a";b.txt)"},
      {"filename*=utf-8''%C3%A9%22", "\xc3\xa9\""},
      {"filename=\"e\"; filename*=UTF-8'en'%c3%a9", "\xc3\xa9"},
      {"filename*=UTF-8''x; filename=y", "x"},
      {"filename*=UTF-8''%ff", nullptr},
      {"filename*=UTF-8''%f", nullptr},
      {"filename*=latin1''%e9", nullptr},
      {"filename*=%e9", nullptr},
      {"filename=a; filename=b", nullptr},
      {"filename=\"a", nullptr},
      {"filename=\"a\"b", nullptr},
      {"filename=\"a\"b\"", nullptr},
      {"filename", nullptr},
      {"=x", nullptr},
      {"filename=a b", nullptr},
  };
  for (const auto& row : rows) {
    if (row.name) {
      EXPECT_EQ(name_in(row.sent), row.name) << row.sent;
    } else {
      EXPECT_THROW(name_in(row.sent), HttpError) << row.sent;
    }
  }
}

TEST(FormDisposition, NeedsAType) {
  EXPECT_EQ(parse_form_disposition("Form-Data;name=a").name, "a");
  EXPECT_EQ(parse_form_disposition("form-data; name*=utf-8''%C3%A9").name, "\xc3\xa9");
  for (const char* bad : {"", "form-data", "form-data;", "attachment; name=a", "name=a"}) {
    EXPECT_THROW(parse_form_disposition(bad), HttpError) << bad;
  }
}

TEST(Attachment, NamesTheFile) {
  EXPECT_EQ(attachment("a b.txt"), "attachment; filename=\"a b.txt\"");
  EXPECT_EQ(attachment("out/plot.png"), "attachment; filename=\"plot.png\"");
  EXPECT_EQ(attachment("\xc3\xa9\xe4\xbd\xa0.txt"),
            "attachment; filename=\"__.txt\"; filename*=UTF-8''%C3%A9%E4%BD%A0.txt");
  EXPECT_EQ(attachment("a\"b\\c%22.txt"),
            "attachment; filename=\"a_b_c_22.txt\"; filename*=UTF-8''a%22b%5Cc%2522.txt");
  EXPECT_EQ(attachment(""), "attachment; filename=\"download\"");
  EXPECT_EQ(attachment("a/"), "attachment; filename=\"a\"");
}

TEST(Attachment, InjectsNothingWhateverTheName) {
  std::string every;
  for (int c = 1; c < 256; ++c) every += static_cast<char>(c);
  const std::string names[] = {"x\r\nSet-Cookie: a=b",      std::string("a\0b", 3), every,
                               std::string(100000, '\x80'), "\xf0\x9f\x98",         "\x7f\x1b[2J"};
  for (const std::string& name : names) {
    const std::string value = attachment(name);
    EXPECT_TRUE(all_in(kPrintableChars, value)) << value;
    EXPECT_LT(value.size(), 1200u);
    // Two quotes, and nothing that could hide one of them.
    EXPECT_EQ(std::count(value.begin(), value.end(), '"'), 2);
    EXPECT_EQ(value.find('\\'), value.npos);
  }
  EXPECT_EQ(attachment("x\r\nY: z"),
            "attachment; filename=\"x__Y: z\"; filename*=UTF-8''x%0D%0AY%3A%20z");
}

TEST(Attachment, CutsALongNameBetweenCharacters) {
  std::string name(254, 'a');
  EXPECT_EQ(attachment(name + "\xc3\xa9"), "attachment; filename=\"" + name + '"');
}

}  // namespace
}  // namespace tb::http
