// SPDX-License-Identifier: Apache-2.0
#include "http/multipart.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/test_loop.h"
#include "http/test_exchange.h"

namespace tb::http {
namespace {

using Event = MultipartParser::Event;

// What came out of a body, as text: "[name|filename|type]data;" for each part, then "end", or
// "400 why".
class Transcript {
 public:
  explicit Transcript(std::string_view boundary) : parser_(boundary) {}

  void feed(std::string_view input) {
    if (failed_) return;
    try {
      for (;;) {
        const Event event = parser_.next(input);
        if (event == Event::more || event == Event::end) break;
        write(event);
      }
    } catch (const HttpError& error) {
      fail(error);
    }
  }
  std::string finish() {
    if (failed_) return text_;
    try {
      parser_.finish();
      text_ += "end";
    } catch (const HttpError& error) {
      fail(error);
    }
    return text_;
  }

 private:
  void write(Event event) {
    if (event == Event::data) text_ += parser_.data();
    if (event == Event::part_end) text_ += ';';
    if (event != Event::part) return;
    const Part& part = parser_.part();
    text_ += '[' + part.name + '|' + part.filename.value_or("-") + '|' + part.content_type + ']';
  }
  void fail(const HttpError& error) {
    failed_ = true;
    text_ += std::to_string(error.status()) + ' ' + error.text();
  }

  MultipartParser parser_;
  std::string text_;
  bool failed_ = false;
};

std::string read_all(std::string_view body, std::string_view boundary = "XX") {
  Transcript transcript{boundary};
  transcript.feed(body);
  return transcript.finish();
}

std::string part(const std::string& parameters, const std::string& data) {
  return "--XX\r\nContent-Disposition: form-data; " + parameters + "\r\n\r\n" + data + "\r\n";
}

// As python-requests sends it: a field, then a file without a type.
const std::string kUpload = part("name=\"session_id\"", "s-1") +
                            part("name=\"file\"; filename=\"a/b.txt\"", "one\r\ntwo\r") +
                            "--XX--\r\n";

TEST(Multipart, ReadsWhatRequestsSends) {
  EXPECT_EQ(read_all(kUpload), "[session_id|-|]s-1;[file|a/b.txt|]one\r\ntwo\r;end");
}

TEST(Multipart, ReadsWhatBrowsersAndCurlSend) {
  const std::string mark = "------------------------c282399d2c3de168";
  const std::string body =
      "--" + mark +
      "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"q%22u\\o.txt\"\r\n"
      "Content-Type: text/plain\r\n\r\nhi\n\r\n--" +
      mark + "--\r\n";
  EXPECT_EQ(read_all(body, mark), "[file|q\"u\\o.txt|text/plain]hi\n;end");
}

// Bodies that come close to their delimiter in every way, good and bad.
const std::string kNear[] = {
    kUpload,
    "\r\n" + kUpload,
    "a preamble\r\n\r\n--X\r\n" + kUpload + "an epilogue\r\n--XX",
    part("name=a", "\r") + part("name=b", "\r\n") + part("name=c", "\r\r\n\r\n-") + "--XX--",
    part("name=a", "\r\n--X\r\n--\r\n--X\r\n-\r\n-XX--XX\r\r\n--X\n\r\n--xx") + "--XX--\r\n\r\n",
    part("name=a", "") + "--XX \t\r\nContent-Disposition: form-data; name=b\r\n\r\n--XX--",
    part("name=a", "--X") + part("name=b", "-") + "--XX--",
    part("name=a", "x") + "--XXY\r\n",
    part("name=a", "x") + "--XX-\r\n",
    part("name=a", "x") + "--XX\rX",
    part("name=a", "x") + "--XX",
    part("name=a", "x"),
    "--XX\r\n\r\nno head\r\n--XX--",
    "--XX\r\nContent-Disposition: form-data; name=a\r\n\n\r\n\r\n--XX--",
    "--XX--",
    "",
};

TEST(Multipart, AnySplitReadsTheSame) {
  for (const std::string& body : kNear) {
    const std::string whole = read_all(body);
    for (std::size_t piece = 1; piece < 9; ++piece) {
      Transcript transcript{"XX"};
      for (std::size_t at = 0; at < body.size(); at += piece) {
        transcript.feed(std::string{body.substr(at, piece)});
      }
      EXPECT_EQ(transcript.finish(), whole) << piece;
    }
    for (std::size_t first = 0; first <= body.size(); ++first) {
      for (std::size_t second = first; second <= body.size(); ++second) {
        Transcript transcript{"XX"};
        transcript.feed(std::string_view{body}.substr(0, first));
        transcript.feed(std::string_view{body}.substr(first, second - first));
        transcript.feed(std::string_view{body}.substr(second));
        ASSERT_EQ(transcript.finish(), whole) << first << ' ' << second;
      }
    }
  }
}

TEST(Multipart, KeepsDataThatLooksLikeADelimiter) {
  EXPECT_EQ(read_all(kNear[2]), read_all(kUpload));
  EXPECT_EQ(read_all(kNear[3]), "[a|-|]\r;[b|-|]\r\n;[c|-|]\r\r\n\r\n-;end");
  EXPECT_EQ(read_all(kNear[4]),
            "[a|-|]\r\n--X\r\n--\r\n--X\r\n-\r\n-XX--XX\r\r\n--X\n\r\n--xx;end");
  EXPECT_EQ(read_all(kNear[5]), "[a|-|];[b|-|];end");
  EXPECT_EQ(read_all(kNear[6]), "[a|-|]--X;[b|-|]-;end");
}

TEST(Multipart, RefusesWhatIsMalformed) {
  const std::string head = "--XX\r\nContent-Disposition: form-data; name=a\r\n";
  const struct {
    std::string body;
    const char* why;
  } rows[] = {
      {"", "cut short"},
      {"--XX", "cut short"},
      {part("name=a", "x"), "cut short"},
      {part("name=a", "x") + "--XX-", "cut short"},
      {head, "cut short"},
      {"no boundary at all", "cut short"},
      {"--XXY\r\n", "boundary line"},
      {"--XX \r\r\n", "boundary line"},
      {"--XX\nContent-Disposition: form-data; name=a\n\nx\n--XX--\n", "boundary line"},
      {"--XX\r\n\r\nx\r\n--XX--", "no Content-Disposition"},
      {"--XX\r\nContent-Type: text/plain\r\n\r\nx\r\n--XX--", "no Content-Disposition"},
      {head + "Content-Disposition: form-data; name=b\r\n\r\nx\r\n--XX--", "more than one"},
      {head + "A b: c\r\n\r\n", "malformed head"},
      {head + "no colon\r\n\r\n", "malformed head"},
      {head + " folded: x\r\n\r\n", "malformed head"},
      {head + "A: b\nc\r\n\r\n", "malformed head"},
      {head + "A: b\rc\r\n\r\n", "malformed head"},
      {head + std::string("A: b\0c\r\n\r\n", 10), "malformed head"},
      {head + "Content-Transfer-Encoding: base64\r\n\r\n", "Transfer-Encoding"},
      {part("filename=\"x\"", "x"), "no name"},
      {part("name=\"x", "x"), "Disposition"},
      {part("name=a; name=b", "x"), "Disposition"},
      {std::string(10000, 'p') + "\r\n" + kUpload, "outside of its parts"},
      {kUpload + std::string(10000, 'e'), "outside of its parts"},
      {"--XX" + std::string(10000, ' ') + "\r\n", "outside of its parts"},
      {head + "A: " + std::string(kMaxPartHead, 'a') + "\r\n\r\nx\r\n--XX--", "too large"},
  };
  for (const auto& row : rows) {
    const std::string got = read_all(row.body);
    EXPECT_NE(got.find("400 "), got.npos) << row.body.substr(0, 99) << " gave " << got;
    EXPECT_NE(got.find(row.why), got.npos) << row.body.substr(0, 99) << " gave " << got;
  }
}

TEST(Multipart, TakesPartsAndHeadsUpToTheLimits) {
  std::string body;
  for (int i = 0; i < kMaxParts; ++i) body += part("name=a", "x");
  EXPECT_TRUE(read_all(body + "--XX--").ends_with(";end"));
  EXPECT_NE(read_all(body + part("name=a", "x") + "--XX--").find("too many parts"),
            std::string::npos);
  const std::string head = "--XX\r\nContent-Disposition: form-data; name=a\r\nA: ";
  EXPECT_TRUE(read_all(head + std::string(8000, 'a') + "\r\n\r\nx\r\n--XX--").ends_with(";end"));
}

TEST(Multipart, FindsTheBoundary) {
  EXPECT_EQ(find_boundary("multipart/form-data; boundary=ab"), "ab");
  EXPECT_EQ(find_boundary("Multipart/Form-Data;charset=x ; BOUNDARY=\"a b=\""), "a b=");
  EXPECT_EQ(find_boundary("multipart/form-data; boundary=a/b:c=="), "a/b:c==");
  EXPECT_EQ(find_boundary("multipart/form-data; boundary=" + std::string(70, 'a')),
            std::string(70, 'a'));
  for (const char* other : {"", "application/json", "multipart/mixed; boundary=a",
                            "multipart/form-database; boundary=a"}) {
    EXPECT_EQ(find_boundary(other), std::nullopt) << other;
  }
  for (const std::string parameters :
       {"", "; boundary", "; boundary=", "; boundary=\"\"", "; boundary=\"a", "; boundary=\"a \"",
        "; boundary=a b", "; boundary=a; boundary=a", "; boundary=\xc3\xa4", "; boundary=\"a\\b\"",
        "; boundary=a\"b\"", "; charset=utf-8"}) {
    EXPECT_THROW(find_boundary("multipart/form-data" + parameters), HttpError) << parameters;
  }
  EXPECT_THROW(find_boundary("multipart/form-data; boundary=" + std::string(71, 'a')), HttpError);
  EXPECT_THROW(MultipartParser{"a\r\n"}, HttpError);
}

awaitable<std::string> read_parts(Exchange& exchange) {
  MultipartReader reader{exchange, "XX"};
  std::string text;
  for (;;) {
    const std::optional<Part> next = co_await reader.next_part();
    if (!next) break;
    text += next->name + '=';
    if (next->name == "skipped") continue;
    if (next->name == "half") {
      const std::string_view piece = co_await reader.read();
      text += piece.substr(0, 1);
      continue;
    }
    text += co_await reader.read_text(16_KiB);
    const std::string_view after = co_await reader.read();
    text += after.empty() ? ";" : "?";
  }
  const std::optional<Part> again = co_await reader.next_part();
  co_return text + (again ? "?" : "end");
}

std::string pull(const std::string& body, std::size_t piece) {
  TestExchange exchange{"POST", "/upload", body};
  if (piece != 0) exchange.chunk(piece);
  TestLoop loop;
  try {
    return loop.run(read_parts(exchange));
  } catch (const HttpError& error) {
    return std::to_string(error.status()) + ' ' + error.text();
  }
}

TEST(MultipartReader, GivesPartsAndSkipsWhatIsNotRead) {
  const std::string body = part("name=a", "1") + part("name=skipped", std::string(200000, 's')) +
                           part("name=half", "hhhh") + part("name=empty", "") +
                           part("name=b", "2\r\n") + "--XX--\r\n";
  for (const std::size_t piece : {0u, 1u, 7u, 1000u}) {
    EXPECT_EQ(pull(body, piece), "a=1;skipped=half=hempty=;b=2\r\n;end") << piece;
  }
}

TEST(MultipartReader, RefusesLongFieldsAndCutBodies) {
  EXPECT_EQ(pull(part("name=a", std::string(17000, 'x')) + "--XX--", 0),
            "413 A field of the form is too large");
  EXPECT_EQ(pull(part("name=a", "1"), 3), "400 The multipart body was cut short");
  EXPECT_EQ(pull(part("name=skipped", "1"), 0), "400 The multipart body was cut short");
}

}  // namespace
}  // namespace tb::http
