// SPDX-License-Identifier: Apache-2.0
#include "base/codec.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace tb {
namespace {

const std::vector<std::string> kWords = {"", "a", std::string("\0\xff", 2), std::string(300, 'x')};

std::string everything() {
  Writer out;
  out.u8(200);
  out.u32(0xdeadbeef);
  out.u64(std::numeric_limits<std::uint64_t>::max() - 1);
  out.i32(std::numeric_limits<std::int32_t>::min());
  out.bytes(std::string_view("zero\0inside", 11));
  out.list(kWords);
  return out.take();
}

// True when all of it was there.
bool read_everything(std::string_view bytes) {
  Reader in{bytes};
  in.u8();
  in.u32();
  in.u64();
  in.i32();
  in.bytes();
  in.list();
  return in.done();
}

std::string number(std::uint32_t value) {
  Writer out;
  out.u32(value);
  return out.take();
}

TEST(Codec, WhatIsWrittenIsReadBack) {
  const std::string bytes = everything();
  Reader in{bytes};
  EXPECT_EQ(in.u8(), 200);
  EXPECT_EQ(in.u32(), 0xdeadbeef);
  EXPECT_EQ(in.u64(), std::numeric_limits<std::uint64_t>::max() - 1);
  EXPECT_EQ(in.i32(), std::numeric_limits<std::int32_t>::min());
  EXPECT_FALSE(in.done());
  EXPECT_EQ(in.bytes(), std::string("zero\0inside", 11));
  EXPECT_EQ(in.list(), kWords);
  EXPECT_TRUE(in.done());
}

TEST(Codec, NumbersAreLittleEndian) { EXPECT_EQ(number(0x01020304), "\x04\x03\x02\x01"); }

TEST(Codec, EveryShorterMessageFails) {
  const std::string bytes = everything();
  ASSERT_TRUE(read_everything(bytes));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(read_everything(std::string_view{bytes}.substr(0, size))) << size;
  }
}

TEST(Codec, BytesLeftOverAreNotDone) {
  const std::string bytes = everything() + '\0';
  EXPECT_FALSE(read_everything(bytes));
}

TEST(Codec, ALengthThatLiesFails) {
  for (const std::uint32_t length : {4u, 5u, 0x7fffffffu, 0xfffffffcu, 0xffffffffu}) {
    const std::string bytes = number(length) + "abc";
    Reader in{bytes};
    EXPECT_EQ(in.view(), "");
    EXPECT_FALSE(in.ok()) << length;
  }
}

TEST(Codec, ACountThatLiesFailsAndReservesNothing) {
  for (const std::uint32_t count : {2u, 0x10000000u, 0x40000000u, 0xffffffffu}) {
    const std::string bytes = number(count) + number(0);
    Reader in{bytes};
    const std::vector<std::string> list = in.list();
    EXPECT_FALSE(in.ok()) << count;
    EXPECT_LE(list.capacity(), 1u) << count;
  }
}

TEST(Codec, AValueInAListThatRunsPastTheEndFails) {
  const std::string bytes = number(2) + number(1) + "a" + number(9) + "b";
  Reader in{bytes};
  in.list();
  EXPECT_FALSE(in.ok());
}

TEST(Codec, AFailedReaderAnswersZerosAndStaysFailed) {
  const std::string bytes = "\x01\x02\x03";
  Reader in{bytes};
  EXPECT_EQ(in.u32(), 0u);
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.u8(), 0);  // although a byte would be there
  EXPECT_EQ(in.u64(), 0u);
  EXPECT_EQ(in.i32(), 0);
  EXPECT_EQ(in.bytes(), "");
  EXPECT_TRUE(in.list().empty());
  EXPECT_FALSE(in.done());
}

TEST(Codec, RandomBytesNeverReadPastTheEnd) {
  std::mt19937 random{1};
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 64, '\0');
    for (char& c : bytes) c = static_cast<char>(random() % 4 == 0 ? random() : random() % 3);
    Reader in{bytes};
    while (in.ok() && !in.done()) {
      switch (random() % 4) {
        case 0: in.u8(); break;
        case 1: EXPECT_LE(in.view().size(), bytes.size()); break;
        case 2: EXPECT_LE(in.list().size(), bytes.size() / 4); break;
        default: in.u64();
      }
    }
  }
}

}  // namespace
}  // namespace tb
