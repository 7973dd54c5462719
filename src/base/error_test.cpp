// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <set>

#include "base/id.h"
#include "base/units.h"

namespace tb {
namespace {

TEST(Error, SaysWhatWasBeingDone) {
  const Error error{Code::conflict, "take the lock"};
  EXPECT_EQ(error.code(), Code::conflict);
  EXPECT_STREQ(error.what(), "take the lock");
}

TEST(Error, EveryCodeHasAName) {
  std::set<std::string_view> names;
  for (const Code code : {Code::invalid, Code::not_found, Code::conflict, Code::limited,
                          Code::exhausted, Code::unavailable, Code::internal}) {
    names.insert(name_of(code));
  }
  EXPECT_EQ(names.size(), 7u);
}

TEST(Check, PassesAResultThrough) {
  EXPECT_EQ(check(0, "x"), 0);
  EXPECT_EQ(check(ssize_t{7}, "x"), 7);
  EXPECT_EQ(check(-2, "x"), -2);
}

TEST(Check, ThrowsTheErrnoAndTheWords) {
  try {
    check(::close(-1), "close nothing");
    FAIL();
  } catch (const SystemError& error) {
    EXPECT_EQ(error.number(), EBADF);
    EXPECT_EQ(error.code(), Code::internal);
    EXPECT_STREQ(error.what(), "close nothing: Bad file descriptor");
  }
}

TEST(Check, WhatIsUsedUpIsExhausted) {
  for (const int number : {ENOSPC, EDQUOT, EMFILE, ENFILE, ENOMEM, EAGAIN}) {
    EXPECT_EQ((SystemError{number, "x"}).code(), Code::exhausted) << number;
  }
  for (const int number : {EPERM, EIO, ENOENT, EINVAL}) {
    EXPECT_EQ((SystemError{number, "x"}).code(), Code::internal) << number;
  }
}

TEST(AssertDeathTest, SaysWhereAndEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  TB_ASSERT(true);
  EXPECT_DEATH(TB_ASSERT(1 + 1 == 3), "error_test.cpp:[0-9]+: assertion failed: 1 \\+ 1 == 3");
}

TEST(Bytes, HaveUnits) {
  EXPECT_EQ(1_KiB, 1024_B);
  EXPECT_EQ(1_MiB, 1_KiB * 1024);
  EXPECT_EQ(1_GiB / 1024, 1_MiB);
  EXPECT_EQ(1_KiB + 1_B, Bytes{1025});
  EXPECT_LT(1_MiB, 1_GiB);
}

TEST(Id, IsARandomUuid) {
  for (int i = 0; i < 100; ++i) {
    const std::string id = make_uuid();
    ASSERT_EQ(id.size(), 36u);
    for (std::size_t at = 0; at < id.size(); ++at) {
      const bool dash = at == 8 || at == 13 || at == 18 || at == 23;
      EXPECT_EQ(id[at] == '-', dash) << id;
      EXPECT_NE(std::string_view{"0123456789abcdef-"}.find(id[at]), std::string_view::npos) << id;
    }
    EXPECT_EQ(id[14], '4') << id;
    EXPECT_NE(std::string_view{"89ab"}.find(id[19]), std::string_view::npos) << id;
  }
}

TEST(Id, IsNeverTheSame) {
  std::set<std::string> ids;
  for (int i = 0; i < 10000; ++i) ids.insert(make_uuid());
  EXPECT_EQ(ids.size(), 10000u);
}

}  // namespace
}  // namespace tb
