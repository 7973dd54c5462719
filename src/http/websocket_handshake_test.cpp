// SPDX-License-Identifier: Apache-2.0
#include "http/websocket_handshake.h"

#include <gtest/gtest.h>

#include "http/origin.h"

namespace tb::http {
namespace {

const std::string kKey = "dGhlIHNhbXBsZSBub25jZQ==";

struct Asked {
  std::string upgrade = "websocket";
  std::string connection = "Upgrade";
  std::string version = "13";
  std::string key = kKey;
};

Request request_of(const Asked& asked) {
  Request request;
  request.method = "GET";
  request.headers.add("Host", "box:1");
  request.headers.add("Upgrade", asked.upgrade);
  request.headers.add("Connection", asked.connection);
  request.headers.add("Sec-WebSocket-Version", asked.version);
  request.headers.add("Sec-WebSocket-Key", asked.key);
  return request;
}

// The status, and for 426 what the client should use.
std::string answer_to(const Request& request) {
  try {
    return std::to_string(accept_websocket(request, {}).status);
  } catch (const HttpError& error) {
    std::string told = std::to_string(error.status());
    for (const Header& header : error.headers()) told += ' ' + header.name + '=' + header.value;
    return told;
  }
}

const std::string kUpgrade = "426 Upgrade=websocket Sec-WebSocket-Version=13";

TEST(WebSocketHandshake, AnswersTheKeyAsTheRfcDoes) {
  EXPECT_EQ(websocket_accept(kKey), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  const Response response = accept_websocket(request_of({}), {});
  EXPECT_EQ(response.status, 101);
  EXPECT_EQ(*response.find("Sec-WebSocket-Accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  EXPECT_EQ(response.find("Sec-WebSocket-Protocol"), nullptr);
}

TEST(WebSocketHandshake, FindsTokensInListsAndInAnyCase) {
  EXPECT_EQ(answer_to(request_of({.connection = "keep-alive , uPGRADE"})), "101");
  EXPECT_EQ(answer_to(request_of({.upgrade = "h2c,WebSocket"})), "101");
  Request two = request_of({.connection = "keep-alive"});
  two.headers.add("connection", "upgrade");
  EXPECT_EQ(answer_to(two), "101");
}

TEST(WebSocketHandshake, AsksForAnUpgradeWhenItIsNone) {
  EXPECT_EQ(answer_to(request_of({.upgrade = "websockets"})), kUpgrade);
  EXPECT_EQ(answer_to(request_of({.connection = "close"})), kUpgrade);
  EXPECT_EQ(answer_to(request_of({.version = "8"})), kUpgrade);
  EXPECT_EQ(answer_to(request_of({.version = "13, 8"})), kUpgrade);
  Request post = request_of({});
  post.method = "POST";
  EXPECT_EQ(answer_to(post), kUpgrade);
  Request old = request_of({});
  old.version = 10;
  EXPECT_EQ(answer_to(old), kUpgrade);
}

TEST(WebSocketHandshake, TakesOneKeyOfSixteenBytes) {
  for (const char* key :
       {"", "dGhlIHNhbXBsZSBub25jZQ=", "dGhlIHNhbXBsZSBub25jZQ==A", "dGhlIHNhbXBsZSBub25jZR==",
        "dGhlIHNhbXBsZSBub25jZSE=", "dGhl IHNhbXBsZSBub25jZQ=", "dGhlIHNhbXBsZSBub2-jZQ=="}) {
    EXPECT_EQ(answer_to(request_of({.key = key})), "400") << key;
  }
  Request two = request_of({});
  two.headers.add("Sec-WebSocket-Key", kKey);
  EXPECT_EQ(answer_to(two), "400");
}

TEST(WebSocketHandshake, ChoosesAProtocolOfOurs) {
  Request request = request_of({});
  request.headers.add("Sec-WebSocket-Protocol", "chat, terminal.v1");
  request.headers.add("Sec-WebSocket-Protocol", "terminal.v2");
  const std::vector<std::string> ours{"terminal.v2", "terminal.v1"};
  EXPECT_EQ(*accept_websocket(request, ours).find("Sec-WebSocket-Protocol"), "terminal.v2");
  EXPECT_EQ(accept_websocket(request, {"Chat"}).find("Sec-WebSocket-Protocol"), nullptr);
}

bool opens(const char* origin, const std::vector<std::string>& allowed = {}) {
  Request request = request_of({});
  request.headers.add("Origin", origin);
  return same_origin_or_allowed(request, allowed);
}

TEST(Origin, LetsInOurOwnPagesThoseListedAndWhatIsNoBrowser) {
  EXPECT_TRUE(same_origin_or_allowed(request_of({}), {}));
  EXPECT_TRUE(opens("http://box:1"));
  EXPECT_TRUE(opens("https://BOX:1"));
  for (const char* other : {"http://box", "http://box:12", "http://evil", "null", "", "box:1",
                            "http://box:1/", "http://box:1.evil", "ftp://box:1"}) {
    EXPECT_FALSE(opens(other)) << other;
  }
  EXPECT_TRUE(opens("https://app.example", {"https://app.example"}));
  EXPECT_FALSE(opens("https://app.example.evil", {"https://app.example"}));
  EXPECT_TRUE(opens("http://evil", {"*"}));
}

TEST(Origin, TrustsNoSecondOne) {
  Request request = request_of({});
  request.headers.add("Origin", "http://box:1");
  request.headers.add("Origin", "http://evil");
  EXPECT_FALSE(same_origin_or_allowed(request, {}));
  EXPECT_FALSE(same_origin_or_allowed(request, {"http://evil"}));
}

}  // namespace
}  // namespace tb::http
