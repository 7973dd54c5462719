// SPDX-License-Identifier: Apache-2.0
#include "net/address.h"

#include <gtest/gtest.h>

namespace tb::net {
namespace {

bool refused(const char* text, const AddressRules& rules = {}) {
  const auto address = parse_address(text);
  EXPECT_TRUE(address) << text;
  return address && !rules.refusal(*address).empty();
}

TEST(AddressRules, TheInsideIsRefused) {
  for (const char* text :
       {"0.0.0.0",         "0.1.2.3",         "10.0.0.0",        "10.255.255.255",
        "100.64.0.0",      "100.127.255.255", "127.0.0.1",       "127.255.255.255",
        "169.254.0.1",     "169.254.169.254", "172.16.0.0",      "172.31.255.255",
        "192.0.0.1",       "192.0.2.1",       "192.88.99.1",     "192.168.0.0",
        "192.168.255.255", "198.18.0.1",      "198.19.255.255",  "198.51.100.1",
        "203.0.113.1",     "224.0.0.1",       "239.255.255.255", "240.0.0.1",
        "255.255.255.255"}) {
    EXPECT_TRUE(refused(text)) << text;
  }
}

TEST(AddressRules, TheInsideIsRefusedInIpv6Too) {
  for (const char* text : {"::",
                           "::1",
                           "::2",
                           "::7f00:1",
                           "::ffff:127.0.0.1",
                           "::ffff:8.8.8.8",
                           "64:ff9b::7f00:1",
                           "64:ff9b::a00:1",
                           "64:ff9b::a9fe:a9fe",
                           "64:ff9b:1::808:808",
                           "100::1",
                           "2001::1",
                           "2001:db8::1",
                           "2002:7f00:1::",
                           "2002:a00:1::1",
                           "2002:c0a8:101::1",
                           "3fff::1",
                           "4000::1",
                           "5f00::1",
                           "fc00::1",
                           "fd12:3456::1",
                           "fe80::1",
                           "febf::1",
                           "fec0::1",
                           "ff02::1",
                           "ff0e::1"}) {
    EXPECT_TRUE(refused(text)) << text;
  }
}

TEST(AddressRules, TheOutsideIsNot) {
  for (const char* text : {"1.1.1.1",         "8.8.8.8",         "9.255.255.255",
                           "11.0.0.0",        "100.63.255.255",  "100.128.0.0",
                           "126.255.255.255", "128.0.0.0",       "169.253.255.255",
                           "169.255.0.0",     "172.15.255.255",  "172.32.0.0",
                           "192.167.255.255", "192.169.0.0",     "198.17.255.255",
                           "198.20.0.0",      "223.255.255.255", "2001:4860:4860::8888",
                           "2606:4700::1111", "2a00::1",         "64:ff9b::808:808",
                           "2002:808:808::1"}) {
    EXPECT_FALSE(refused(text)) << text;
  }
}

TEST(AddressRules, AnOperatorMayAllowSomeOrAll) {
  const AddressRules some{false, {*parse_network("10.1.0.0/16"), *parse_network("fd00::/8")}};
  EXPECT_FALSE(refused("10.1.255.255", some));
  EXPECT_FALSE(refused("fd00::1", some));
  EXPECT_TRUE(refused("10.2.0.0", some));
  EXPECT_TRUE(refused("127.0.0.1", some));
  EXPECT_TRUE(refused("fc00::1", some));
  // The same address in another dress is another address.
  EXPECT_TRUE(refused("::ffff:10.1.0.1", some));
  const AddressRules all{true, {}};
  EXPECT_FALSE(refused("127.0.0.1", all));
  EXPECT_FALSE(refused("::1", all));
}

TEST(Address, OnlyTheUsualSpellingsAreRead) {
  for (const char* text :
       {"127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.01", "127.0.0.1.", " 127.0.0.1",
        "127.0.0.256", "fe80::1%eth0", "[::1]", "", "1.2.3.4/32", "::1::"}) {
    EXPECT_FALSE(parse_address(text)) << text;
  }
  EXPECT_FALSE(parse_address(std::string_view{"127.0.0.1\0x", 11}));
}

TEST(Network, HasAnAddressAndBits) {
  for (const char* text : {"10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/8 ", "x/8",
                           "::/129", "10.0.0.0/8/8"}) {
    EXPECT_FALSE(parse_network(text)) << text;
  }
  EXPECT_TRUE(parse_network("0.0.0.0/0")->contains(*parse_address("255.0.0.1")));
  EXPECT_FALSE(parse_network("0.0.0.0/0")->contains(*parse_address("::1")));
  EXPECT_TRUE(parse_network("10.0.0.7")->contains(*parse_address("10.0.0.7")));
  EXPECT_FALSE(parse_network("10.0.0.7")->contains(*parse_address("10.0.0.6")));
  EXPECT_TRUE(parse_network("10.0.0.128/25")->contains(*parse_address("10.0.0.200")));
  EXPECT_FALSE(parse_network("10.0.0.128/25")->contains(*parse_address("10.0.0.127")));
}

}  // namespace
}  // namespace tb::net
