// SPDX-License-Identifier: Apache-2.0
#include "e2b/ends.h"

#include <gtest/gtest.h>

#include <csignal>

namespace tb::e2b {
namespace {

constexpr const char* kAborted = R"x({"exitCode":-1,"status":"signal: aborted (core dumped)"})x";

sandbox::Exit exit_of(const char* text) { return to_exit(*parse_object(text)); }

TEST(Ends, ACodeIsACode) {
  EXPECT_EQ(exit_of(R"({"exited":true,"status":"exit status 0"})").code, 0);
  const sandbox::Exit exit = exit_of(R"({"exitCode":3,"exited":true,"status":"exit status 3"})");
  EXPECT_EQ(exit.code, 3);
  EXPECT_EQ(exit.cause, sandbox::Cause::exited);
  EXPECT_EQ(exit_of(R"({"exitCode":"7","exited":true})").code, 7);
}

TEST(Ends, ASignalIsToldByItsName) {
  const sandbox::Exit exit = exit_of(R"({"exitCode":-1,"status":"signal: killed"})");
  EXPECT_EQ(exit.code, 137);
  EXPECT_EQ(exit.signal, SIGKILL);
  EXPECT_EQ(exit.cause, sandbox::Cause::signal);
  EXPECT_EQ(exit_of(kAborted).signal, SIGABRT);
  EXPECT_EQ(exit_of(R"({"exitCode":-1,"status":"signal: signal 34"})").signal, 34);
}

TEST(Ends, WhatIsNotUnderstoodIsNoSuccess) {
  EXPECT_EQ(exit_of(R"({"exitCode":-1,"status":"something new"})").signal, SIGKILL);
  EXPECT_EQ(exit_of(R"({"exitCode":-1})").code, 137);
}

}  // namespace
}  // namespace tb::e2b
