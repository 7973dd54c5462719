// SPDX-License-Identifier: Apache-2.0
#include "http/sse.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "http/test_exchange.h"
#include "http/test_server.h"

namespace tb::http {
namespace {

using namespace std::string_literals;

TEST(EventStream, WritesEachLineAsAField) {
  EXPECT_EQ(format_event("output", "17", "a"), "event: output\nid: 17\ndata: a\n\n");
  EXPECT_EQ(format_event("", "", ""), "data: \n\n");
  EXPECT_EQ(format_event("", "", "a\nb\r\nc\rd"), "data: a\ndata: b\ndata: c\ndata: d\n\n");
  EXPECT_EQ(format_event("", "", "\n"), "data: \ndata: \n\n");
  EXPECT_EQ(format_event("", "", "\n\r"), "data: \ndata: \ndata: \n\n");
  EXPECT_EQ(format_event("", "", " id: 1\0x"s), "data:  id: 1\0x\n\n"s);
}

TEST(EventStream, LetsNoNameOrIdBreakOut) {
  for (const std::string& bad : {"a\nb"s, "a\rb"s, "a\0b"s}) {
    EXPECT_THROW(format_event(bad, "", ""), Error);
    EXPECT_THROW(format_event("", bad, ""), Error);
  }
}

TEST(EventStream, GoesOutAtOnceAndEnds) {
  const Handler stream = [](Exchange& exchange) -> awaitable<void> {
    EventStream events{exchange};
    co_await events.begin();
    co_await events.send("out", "1", "a\nb");
    co_await events.comment();
    co_await events.end();
  };
  TestServer server{stream};
  Wire wire{server.port()};
  wire.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string head = wire.read_until("\r\n\r\n");
  for (const char* header :
       {"\r\nContent-Type: text/event-stream\r\n", "\r\nCache-Control: no-cache\r\n",
        "\r\nX-Accel-Buffering: no\r\n", "\r\nTransfer-Encoding: chunked\r\n"}) {
    EXPECT_NE(head.find(header), head.npos) << header;
  }
  EXPECT_EQ(wire.read_to_end(),
            "22\r\nevent: out\nid: 1\ndata: a\ndata: b\n\n\r\n3\r\n:\n\n\r\n0\r\n\r\n");
}

TEST(LastEventId, IsTheHeaderElseTheParameter) {
  TestExchange none{"GET", "/x"};
  EXPECT_EQ(parse_last_event_id(none.request()), std::nullopt);
  TestExchange asked{"GET", "/x?last_event_id=7"};
  EXPECT_EQ(parse_last_event_id(asked.request()), "7");
  asked.add_header("Last-Event-ID", "12");
  EXPECT_EQ(parse_last_event_id(asked.request()), "12");
  asked.add_header("last-event-id", "13");
  EXPECT_THROW(parse_last_event_id(asked.request()), HttpError);
}

}  // namespace
}  // namespace tb::http
