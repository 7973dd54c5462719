// SPDX-License-Identifier: Apache-2.0
#include "net/url.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tb::net {
namespace {

std::string problem_of(const std::string& text) {
  try {
    parse_url(text);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
}

TEST(Url, IsReadIntoItsParts) {
  const Url url = parse_url("HTTPS://Example.ORG:8443/a/b?c=d&e");
  EXPECT_TRUE(url.tls);
  EXPECT_EQ(url.host, "example.org");
  EXPECT_FALSE(url.address);
  EXPECT_EQ(url.port, 8443);
  EXPECT_EQ(url.target, "/a/b?c=d&e");
  EXPECT_EQ(url.authority(), "example.org:8443");
  EXPECT_EQ(url.text(), "https://example.org:8443/a/b?c=d&e");
}

TEST(Url, HasTheUsualPortAndPathWhenItSaysNone) {
  EXPECT_EQ(parse_url("http://example.org").text(), "http://example.org/");
  EXPECT_EQ(parse_url("http://example.org:80?x").text(), "http://example.org/?x");
  EXPECT_EQ(parse_url("https://example.org:443/").authority(), "example.org");
  EXPECT_EQ(parse_url("https://example.org:80/").authority(), "example.org:80");
  EXPECT_EQ(parse_url("http://h:65535/").port, 65535);
}

TEST(Url, MayHaveAnAddress) {
  EXPECT_EQ(parse_url("http://192.0.2.7/").address->to_string(), "192.0.2.7");
  const Url six = parse_url("http://[2001:DB8::0:1]:81/x");
  EXPECT_EQ(six.host, "2001:db8::1");
  EXPECT_EQ(six.port, 81);
  EXPECT_EQ(six.authority(), "[2001:db8::1]:81");
}

// What could be read in two ways, or leads elsewhere than it seems.
constexpr const char* kRefused[] = {"",
                                    "x",
                                    "//example.org/",
                                    "example.org",
                                    "http:/example.org",
                                    "http:example.org",
                                    "ftp://example.org/",
                                    "file:///etc/passwd",
                                    "javascript:x",
                                    "gopher://x/",
                                    "http://",
                                    "http:///x",
                                    "http://?x",
                                    "http://:80/",
                                    "http://user@example.org/",
                                    "http://user:pass@example.org/",
                                    "http://example.org@127.0.0.1/",
                                    "http://@example.org/",
                                    "http://example.org/#",
                                    "http://example.org#@127.0.0.1/",
                                    "http://example.org:/",
                                    "http://example.org:0/",
                                    "http://example.org:65536/",
                                    "http://example.org:8a/",
                                    "http://example.org:-1/",
                                    "http://example.org:+80/",
                                    "http://example.org:80:80/",
                                    "http://[::1",
                                    "http://[::1]x/",
                                    "http://[127.0.0.1]/",
                                    "http://[fe80::1%25eth0]/",
                                    "http://[fe80::1%eth0]/",
                                    "http://[]/",
                                    "http://::1/",
                                    "http://127.1/",
                                    "http://2130706433/",
                                    "http://0x7f000001/",
                                    "http://0x7f.1/",
                                    "http://0177.0.0.1/",
                                    "http://127.0.0.01/",
                                    "http://127.0.0.1./",
                                    "http://1.2.3/",
                                    "http://a.0x/",
                                    "http://example.org./",
                                    "http://.example.org/",
                                    "http://a..b/",
                                    "http://-a.b/",
                                    "http://a-.b/",
                                    "http://ex%61mple.org/",
                                    "http://ex ample.org/",
                                    "http://example.org/ x",
                                    "http://example.org/\tx",
                                    "http://example.org\\@127.0.0.1/",
                                    "http://ex\xc3\xa9.org/",
                                    "http://example.org/\r\nX: y",
                                    "http://a,b/",
                                    "http://a;b/",
                                    "http://a*b/"};

TEST(Url, WhatCouldBeReadInTwoWaysIsRefused) {
  for (const char* text : kRefused) {
    EXPECT_NE(problem_of(text), "") << text;
  }
  EXPECT_NE(problem_of("http://example.org/" + std::string(kMaxUrl, 'x')), "");
  EXPECT_NE(problem_of("http://" + std::string(64, 'x') + ".org/"), "");
  EXPECT_NE(problem_of(std::string("http://example.org/\0x", 21)), "");
  EXPECT_EQ(problem_of("http://x_y.xn--e-ufa.example/"), "");
  EXPECT_EQ(problem_of("http://0xg.example/"), "");
}

TEST(Url, ARedirectIsAWholeUrlOrAPath) {
  const Url base = parse_url("https://example.org:8443/a/b?c");
  EXPECT_EQ(parse_redirect(base, "/x?y").text(), "https://example.org:8443/x?y");
  EXPECT_EQ(parse_redirect(base, "https://other.org/z#part").text(), "https://other.org/z");
  EXPECT_EQ(parse_redirect(base, "//other.org/z").text(), "https://other.org/z");
  EXPECT_EQ(parse_redirect(base, "http://other.org").tls, false);
  for (const char* bad : {"", "x", "?y", "../z", "ftp://x/", "/\x01", "//user@x/"}) {
    EXPECT_THROW(parse_redirect(base, bad), Error) << bad;
  }
}

TEST(Url, TheInsideIsSeenWithoutAsking) {
  const AddressRules strict;
  for (const char* text : {"http://127.0.0.1/", "http://[::1]/", "http://localhost/",
                           "http://LocalHost:99/", "http://a.localhost/", "http://10.0.0.1/"}) {
    EXPECT_THROW(check_destination(parse_url(text), strict), Error) << text;
    EXPECT_NO_THROW(check_destination(parse_url(text), {true, {}})) << text;
  }
  EXPECT_NO_THROW(check_destination(parse_url("http://notlocalhost/"), strict));
}

}  // namespace
}  // namespace tb::net
