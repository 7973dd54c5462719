// SPDX-License-Identifier: Apache-2.0
#include "net/server_tls.h"

#include <gtest/gtest.h>

#include <future>

#include "http/test_server.h"
#include "net/test_tls_client.h"

namespace tb::net {
namespace {

using http::Exchange;
using http::Response;
using http::ServerLimits;

const std::string kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
const std::string kLast = "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

Identity identity_of(const TestCertificate& certificate) {
  return {.certificate = certificate.pem(), .key = certificate.key().pem()};
}

class ServerTlsTest : public testing::Test {
 protected:
  void start(http::Handler handler = http::echo, ServerLimits limits = {}) {
    start_with(identity_of(certificate_), std::move(handler), limits);
  }
  void start_with(const Identity& identity, http::Handler handler = http::echo,
                  ServerLimits limits = {}) {
    tls_ = std::make_unique<ServerTls>(identity);
    tls_->on_handshake([this](const std::string&, const std::string& problem) {
      (problem.empty() ? good_ : bad_)++;
    });
    http::Secure secure;
    secure.wrap = [this](int fd, const std::string& peer) { return tls_->wrap(fd, peer); };
    secure.hsts = "max-age=5";
    server_ = std::make_unique<http::TestServer>(std::move(handler), limits, nullptr, secure);
  }
  std::uint16_t port() const { return server_->port(); }

  TestCertificate certificate_{"first"};
  std::unique_ptr<ServerTls> tls_;
  std::unique_ptr<http::TestServer> server_;
  std::atomic<int> good_{0};
  std::atomic<int> bad_{0};
};

TEST_F(ServerTlsTest, SpeaksBothVersionsAndKeepsTheConnection) {
  start();
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsWire wire{port(), {.least = version, .most = version}};
    ASSERT_TRUE(wire.connected()) << wire.problem();
    wire.send(kGet);
    EXPECT_NE(wire.read_until("GET /a ").find("200 OK"), std::string::npos);
    wire.send(kGet + kGet + kLast);
    EXPECT_EQ(http::statuses(wire.read_to_end()), "200 200 200");
    EXPECT_TRUE(wire.orderly) << "no good-bye in version " << version;
  }
  EXPECT_EQ(good_, 2);
}

TEST_F(ServerTlsTest, RefusesWhatIsTooOld) {
  start();
  EXPECT_FALSE((TlsWire{port(), {.least = TLS1_VERSION, .most = TLS1_1_VERSION}}.connected()));
  for (const char* weak : {"AES128-SHA", "ECDHE-ECDSA-AES128-SHA", "AES128-GCM-SHA256"}) {
    EXPECT_FALSE((TlsWire{port(), {.most = TLS1_2_VERSION, .ciphers = weak}}.connected())) << weak;
  }
  const ClientOptions good{.most = TLS1_2_VERSION, .ciphers = "ECDHE-ECDSA-AES128-GCM-SHA256"};
  EXPECT_TRUE((TlsWire{port(), good}.connected()));
}

TEST_F(ServerTlsTest, AgreesOnHttp11OrSaysThatItCant) {
  start();
  TlsWire both{port(), {.protocols = "\x02h2\x08http/1.1"}};
  ASSERT_TRUE(both.connected());
  const unsigned char* chosen = nullptr;
  unsigned size = 0;
  ::SSL_get0_alpn_selected(both.get(), &chosen, &size);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(chosen), size), "http/1.1");
  TlsWire other{port(), {.protocols = "\x02h2"}};
  EXPECT_FALSE(other.connected());
  EXPECT_NE(other.problem().find("no application protocol"), std::string::npos) << other.problem();
}

TEST_F(ServerTlsTest, CarriesMuchBothWays) {
  start();
  const std::string body(900'000, 'b');
  TlsWire wire{port()};
  std::thread sender{[&] {
    wire.send("POST /n HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 900000\r\n\r\n");
    wire.send(body);
  }};
  sender.join();
  const std::string answer = wire.read_to_end();
  EXPECT_TRUE(answer.ends_with("POST /n " + body));
  EXPECT_TRUE(wire.orderly);
}

TEST_F(ServerTlsTest, WaitsForASlowReaderAndLosesNothing) {
  constexpr std::size_t kPiece = 100'000;
  constexpr int kPieces = 200;
  start([](Exchange& exchange) -> awaitable<void> {
    Response head;
    co_await exchange.begin(std::move(head), std::nullopt);
    for (int i = 0; i < kPieces; ++i) {
      const std::string piece(kPiece, static_cast<char>('a' + i % 26));
      co_await exchange.write(piece);
    }
    co_await exchange.end();
  });
  TlsWire wire{port()};
  wire.send(kLast);
  // Nothing is read until the server must wait: its socket holds far less than 20 MB.
  const std::string text = wire.read_to_end();
  EXPECT_TRUE(text.ends_with("\r\n0\r\n\r\n"));
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), 'z')), kPiece * 7);
}

TEST_F(ServerTlsTest, SaysWhatItIsToPlainHttp) {
  start();
  http::Wire wire{port()};
  wire.send(kGet);
  const std::string& text = wire.read_to_end();
  EXPECT_EQ(http::statuses(text), "400");
  EXPECT_NE(text.find("https://"), text.npos) << text;
  EXPECT_EQ(text.find("Strict-Transport-Security"), text.npos);
  EXPECT_EQ(bad_, 1);
}

TEST_F(ServerTlsTest, EndsWhatIsNeither) {
  start();
  for (const std::string& noise : {std::string{"\x16\x03\x01\xff\xff garbage"},
                                   std::string(100, '\0'), std::string{"\x80\x80"}}) {
    http::Wire wire{port()};
    wire.send(noise);
    wire.half_close();
    wire.read_to_end();
    EXPECT_TRUE(wire.ended());
  }
  TlsWire wire{port()};
  EXPECT_TRUE(wire.connected());
}

TEST_F(ServerTlsTest, EndsAHandshakeThatTrickles) {
  ServerLimits limits;
  limits.handshake = Milliseconds{200};
  limits.tick = Milliseconds{10};
  start(http::echo, limits);
  http::Wire silent{port()};
  http::Wire begun{port()};
  begun.send("\x16\x03\x01");
  EXPECT_EQ(silent.read_to_end(), "");
  EXPECT_TRUE(silent.ended());
  begun.read_to_end();
  EXPECT_TRUE(begun.ended());
}

TEST_F(ServerTlsTest, EndsARequestThatTricklesInside) {
  ServerLimits limits;
  limits.header = Milliseconds{200};
  limits.tick = Milliseconds{10};
  start(http::echo, limits);
  TlsWire wire{port()};
  wire.send("GET / HT");
  EXPECT_EQ(http::statuses(wire.read_to_end()), "408");
}

TEST_F(ServerTlsTest, GivesNoGoodByeToAnAnswerThatWasCutOff) {
  start([](Exchange& exchange) -> awaitable<void> {
    Response head;
    co_await exchange.begin(std::move(head), std::nullopt);
    co_await exchange.write("half of it");
  });
  TlsWire wire{port()};
  wire.send(kGet);
  EXPECT_NE(wire.read_to_end().find("half of it"), std::string::npos);
  EXPECT_FALSE(wire.orderly);
}

TEST_F(ServerTlsTest, TakesATruncatedBodyForNoBody) {
  std::promise<int> status;
  start([&](Exchange& exchange) -> awaitable<void> {
    try {
      std::string body = co_await exchange.read_body(Bytes{1 << 20});
      status.set_value(200);
    } catch (const http::HttpError& error) {
      status.set_value(error.status());
      throw;
    }
  });
  {
    TlsWire wire{port()};
    wire.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nsome");
    wire.wire().half_close();  // of TCP, without a word of TLS
    auto told = status.get_future();
    ASSERT_EQ(told.wait_for(5s), std::future_status::ready);
    EXPECT_EQ(told.get(), 400);
  }
}

TEST_F(ServerTlsTest, TellsBrowsersToComeBackByHttps) {
  start();
  TlsWire wire{port()};
  wire.send(kLast);
  EXPECT_NE(wire.read_to_end().find("\r\nStrict-Transport-Security: max-age=5\r\n"),
            std::string::npos);
}

TEST_F(ServerTlsTest, ChangesItsCertificateForNewConnectionsOnly) {
  start();
  TlsWire old{port()};
  const TestCertificate second{"second"};
  server_->run([&] { tls_->change(identity_of(second)); });
  TlsWire fresh{port()};
  EXPECT_EQ(fresh.certificate_name(), "/CN=second");
  EXPECT_EQ(tls_->subject(), "CN = second");
  old.send(kLast);
  EXPECT_EQ(http::statuses(old.read_to_end()), "200");
  EXPECT_EQ(old.certificate_name(), "/CN=first");
}

std::string problem_of(const Identity& identity) {
  try {
    const ServerTls made{identity};
    return "none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
}

TEST_F(ServerTlsTest, KeepsWhatItHasWhenTheNewIsWrongAndSaysWhy) {
  start();
  const TestCertificate second{"second"};
  Identity mixed = identity_of(second);
  mixed.key = certificate_.key().pem();
  server_->run([&] { EXPECT_THROW(tls_->change(mixed), Error); });
  EXPECT_EQ(TlsWire{port()}.certificate_name(), "/CN=first");
  EXPECT_EQ(tls_->subject(), "CN = first");

  EXPECT_EQ(problem_of(mixed), "the key does not belong to the certificate");
  const Identity good = identity_of(second);
  Identity wrong = good;
  wrong.key = second.key().pem("secret");
  EXPECT_NE(problem_of(wrong).find("passphrase"), std::string::npos) << problem_of(wrong);
  wrong.key = second.pem();
  EXPECT_NE(problem_of(wrong).find("no key"), std::string::npos) << problem_of(wrong);
  wrong = good;
  wrong.certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
  EXPECT_NE(problem_of(wrong).find("can't be read"), std::string::npos) << problem_of(wrong);
  wrong.certificate = "";
  EXPECT_NE(problem_of(wrong).find("no certificate"), std::string::npos) << problem_of(wrong);
  wrong = good;
  wrong.client_authorities = "nothing";
  EXPECT_NE(problem_of(wrong).find("authorities"), std::string::npos) << problem_of(wrong);
}

TEST_F(ServerTlsTest, ShowsItsChain) {
  const TestCertificate authority{"authority"};
  const TestCertificate leaf{"leaf", &authority};
  start_with({.certificate = leaf.pem() + authority.pem(), .key = leaf.key().pem()});
  TlsWire wire{port()};
  EXPECT_EQ(wire.certificate_name(), "/CN=leaf");
  EXPECT_EQ(sk_X509_num(::SSL_get_peer_cert_chain(wire.get())), 2);
}

// Answers with who the client is.
awaitable<void> name_peer(Exchange& exchange) {
  Response response;
  response.body = "peer <" + exchange.request().peer_name + ">";
  co_await exchange.respond(std::move(response));
}

class ClientCertificates : public ServerTlsTest {
 protected:
  void start_asking(bool required) {
    Identity identity = identity_of(certificate_);
    identity.client_authorities = authority_.pem();
    identity.client_required = required;
    start_with(identity, name_peer);
  }
  // What the server says to a client with this certificate; nothing when it was refused.
  std::string ask(const TestCertificate* certificate) {
    TlsWire wire{port(), {.certificate = certificate}};
    wire.send(kLast);
    const std::string text = wire.read_to_end();
    return text.empty() ? text : text.substr(text.find("\r\n\r\n") + 4);
  }

  TestCertificate authority_{"clients"};
  TestCertificate client_{"alice", &authority_};
  TestCertificate foreign_{"mallory"};
};

TEST_F(ClientCertificates, AreRequired) {
  start_asking(true);
  EXPECT_EQ(ask(&client_), "peer <CN = alice>");
  EXPECT_EQ(ask(nullptr), "");
  EXPECT_EQ(ask(&foreign_), "");
}

TEST_F(ClientCertificates, AreOptionalButNeverForged) {
  start_asking(false);
  EXPECT_EQ(ask(&client_), "peer <CN = alice>");
  EXPECT_EQ(ask(nullptr), "peer <>");
  EXPECT_EQ(ask(&foreign_), "");
}

TEST_F(ServerTlsTest, LetsRequestsFinishWhenItStops) {
  std::promise<void> begun;
  std::atomic<bool> go{false};
  start([&](Exchange& exchange) -> awaitable<void> {
    begun.set_value();
    asio::steady_timer timer{co_await asio::this_coro::executor};
    while (!go) {
      timer.expires_after(Milliseconds{5});
      co_await timer.async_wait(asio::use_awaitable);
    }
    Response response;
    response.body = "late";
    co_await exchange.respond(std::move(response));
  });
  TlsWire idle{port()};
  TlsWire busy{port()};
  busy.send(kGet);
  begun.get_future().wait();
  server_->start_close(10s);
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_TRUE(idle.orderly);
  go = true;
  EXPECT_TRUE(busy.read_to_end().ends_with("late"));
  server_.reset();
}

}  // namespace
}  // namespace tb::net
