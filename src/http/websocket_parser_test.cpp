// SPDX-License-Identifier: Apache-2.0
// Frames to messages, without sockets: joining, strictness, limits, and that pieces don't matter.
#include "http/websocket_parser.h"

#include <gtest/gtest.h>

#include <vector>

#include "http/test_frames.h"

namespace tb::http {
namespace {

using Kind = WebSocketParser::Kind;
using Sender = WebSocketParser::Sender;

// Each event as a word and its data; reads `bytes` in pieces that end at the given places.
std::string events_of(std::string_view bytes, std::vector<std::size_t> cuts = {},
                      WebSocketParser::Limits limits = {}, Sender sender = Sender::client) {
  static constexpr const char* kNames[] = {"none", "text",  "binary",   "ping",
                                           "pong", "close", "violation"};
  WebSocketParser parser{sender, limits};
  std::string told;
  std::size_t at = 0;
  cuts.push_back(bytes.size());
  for (const std::size_t end : cuts) {
    while (true) {
      WebSocketParser::Event event;
      at += parser.parse(bytes.substr(at, end - at), event);
      if (event.kind == Kind::none) break;
      told += kNames[static_cast<int>(event.kind)];
      if (event.kind == Kind::violation) return told + ' ' + std::to_string(event.code);
      if (event.kind == Kind::close) told += ' ' + std::to_string(event.code);
      told += '(' + event.data + ") ";
    }
  }
  return told;
}

std::string violation_of(std::string_view bytes) { return events_of(bytes); }

TEST(WebSocketParser, ReadsMessagesOfEveryLengthForm) {
  for (const std::size_t size : {0u, 1u, 125u, 126u, 127u, 65535u, 65536u, 100000u}) {
    const std::string data(size, 'x');
    EXPECT_EQ(events_of(masked(Opcode::binary, data)), "binary(" + data + ") ") << size;
    EXPECT_EQ(events_of(unmasked(Opcode::text, data), {}, {}, Sender::server),
              "text(" + data + ") ");
  }
}

TEST(WebSocketParser, JoinsFragmentsAroundControlFrames) {
  const std::string bytes = masked(Opcode::text, "a", false) + masked(Opcode::ping, "p") +
                            masked(Opcode::continuation, "", false) + masked(Opcode::pong, "q") +
                            masked(Opcode::continuation, "b") + masked(Opcode::binary, "c");
  EXPECT_EQ(events_of(bytes), "ping(p) pong(q) text(ab) binary(c) ");
}

TEST(WebSocketParser, SaysTheSameHoweverTheBytesAreCut) {
  const std::string euro = "\xe2\x82\xac";
  const std::string sequences[] = {
      masked(Opcode::text, euro.substr(0, 1), false) + masked(Opcode::ping, "12345") +
          masked(Opcode::continuation, euro.substr(1)) +
          masked(Opcode::close,
                 "\x03\xe8"
                 "bye"),
      masked(Opcode::binary, std::string(130, 'z')) + masked(Opcode::text, ""),
      masked(Opcode::text, "\xff\xfe") + masked(Opcode::text, "never"),
      masked(Opcode::text, "a") + unmasked(Opcode::text, "b"),
      masked(Opcode::close, "") + masked(Opcode::text, "never"),
      masked(Opcode::text, "x", false) + masked(Opcode::text, "y"),
  };
  for (const std::string& bytes : sequences) {
    const std::string whole = events_of(bytes);
    EXPECT_NE(whole, "");
    std::vector<std::size_t> each;
    for (std::size_t i = 0; i <= bytes.size(); ++i) {
      each.push_back(i);
      for (std::size_t j = i; j <= bytes.size(); ++j) EXPECT_EQ(events_of(bytes, {i, j}), whole);
    }
    EXPECT_EQ(events_of(bytes, each), whole);
  }
}

TEST(WebSocketParser, RefusesWhatAPeerMayNotSend) {
  const std::string text = masked(Opcode::text, "a");
  EXPECT_EQ(violation_of(unmasked(Opcode::text, "a")), "violation 1002");
  EXPECT_EQ(events_of(text, {}, {}, Sender::server), "violation 1002");
  for (const char reserved : {0x40, 0x20, 0x10}) {
    std::string bytes = text;
    bytes[0] = static_cast<char>(bytes[0] | reserved);
    EXPECT_EQ(violation_of(bytes), "violation 1002") << int{reserved};
  }
  for (int opcode = 0; opcode < 16; ++opcode) {
    if (opcode <= 2 || (opcode >= 8 && opcode <= 10)) continue;
    EXPECT_EQ(violation_of(masked(static_cast<Opcode>(opcode), "a")), "violation 1002") << opcode;
  }
  EXPECT_EQ(violation_of(masked(Opcode::ping, "a", false)), "violation 1002");
  EXPECT_EQ(violation_of(masked(Opcode::ping, std::string(126, 'a'))), "violation 1002");
  EXPECT_EQ(events_of(masked(Opcode::ping, std::string(125, 'a'))).substr(0, 6), "ping(a");
  EXPECT_EQ(violation_of(masked(Opcode::continuation, "a")), "violation 1002");
  EXPECT_EQ(violation_of(masked(Opcode::text, "a", false) + text), "violation 1002");
}

TEST(WebSocketParser, RefusesLengthsThatAreTooLongOrNotTheShortest) {
  using namespace std::string_literals;
  EXPECT_EQ(violation_of("\x82\xff\x80\0\0\0\0\0\0\0mask"s), "violation 1002");
  EXPECT_EQ(violation_of("\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xffmask"s), "violation 1009");
  EXPECT_EQ(violation_of("\x82\xfe\0\x7dmask"s), "violation 1002");
  EXPECT_EQ(violation_of("\x82\xff\0\0\0\0\0\0\xff\xffmask"s), "violation 1002");
}

TEST(WebSocketParser, RefusesTextsThatAreNoUtf8) {
  EXPECT_EQ(violation_of(masked(Opcode::text, "\xc0\xaf")), "violation 1007");
  EXPECT_EQ(violation_of(masked(Opcode::text, "\xe2\x82")), "violation 1007");
  EXPECT_EQ(violation_of(masked(Opcode::close, "\x03\xe8\xff")), "violation 1007");
  EXPECT_EQ(events_of(masked(Opcode::binary, "\xc0")), "binary(\xc0) ");
}

TEST(WebSocketParser, KnowsWhichCloseCodesMayBeSent) {
  for (int code = 0; code < 65536; ++code) {
    const bool good = (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
                      (code >= 3000 && code <= 4999);
    const std::string payload{static_cast<char>(code >> 8), static_cast<char>(code)};
    const std::string told = events_of(masked(Opcode::close, payload));
    ASSERT_EQ(told, good ? "close " + std::to_string(code) + "() " : "violation 1002");
  }
  EXPECT_EQ(violation_of(masked(Opcode::close, "\x03")), "violation 1002");
  EXPECT_EQ(events_of(masked(Opcode::close, "")), "close 1005() ");
}

TEST(WebSocketParser, BoundsAMessageBeforeItHasCome) {
  const WebSocketParser::Limits limits{.message = 10, .fragments = 4};
  const auto with_limits = [&](const std::string& bytes) { return events_of(bytes, {}, limits); };
  EXPECT_EQ(with_limits(masked(Opcode::text, "0123456789")), "text(0123456789) ");
  const std::string large = masked(Opcode::text, "0123456789a");
  EXPECT_EQ(with_limits(large.substr(0, 6)), "violation 1009");
  const std::string half = masked(Opcode::text, "012345", false);
  EXPECT_EQ(with_limits(half + masked(Opcode::continuation, "012345")), "violation 1009");
  std::string empty = masked(Opcode::text, "", false);
  for (int i = 0; i < 4; ++i) empty += masked(Opcode::continuation, "", false);
  EXPECT_EQ(with_limits(empty), "violation 1009");
  std::string many;
  for (int i = 0; i < 10; ++i)
    many += masked(Opcode::text, "a", false) + masked(Opcode::continuation, "b");
  EXPECT_EQ(with_limits(many).find("violation"), std::string::npos);
}

TEST(WebSocketMask, IsTheSameInPiecesAndTwiceIsNone) {
  const Mask mask{'\x12', '\x34', '\x56', '\x78'};
  std::string data;
  for (int i = 0; i < 200; ++i) data += static_cast<char>(i * 7);
  std::string slow = data;
  for (std::size_t i = 0; i < slow.size(); ++i) slow[i] = static_cast<char>(slow[i] ^ mask[i % 4]);
  for (std::size_t cut = 0; cut <= data.size(); ++cut) {
    std::string fast = data;
    apply_mask(fast.data(), cut, mask);
    apply_mask(fast.data() + cut, fast.size() - cut, mask, cut);
    ASSERT_EQ(fast, slow) << cut;
  }
}

}  // namespace
}  // namespace tb::http
