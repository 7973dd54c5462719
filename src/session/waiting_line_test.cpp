// SPDX-License-Identifier: Apache-2.0
#include "session/waiting_line.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <map>

namespace tb::session {
namespace {

class Line : public testing::Test {
 protected:
  void join(const std::string& tenant, const std::string& name) {
    tickets_[name] = line_.join(tenant);
  }
  // Who is granted a place next.
  std::string next() {
    if (!line_.grant()) return "nobody";
    for (auto& [name, ticket] : tickets_) {
      if (ticket && ticket->granted && granted_.insert(name).second) return name;
    }
    return "?";
  }
  asio::io_context io_;
  WaitingLine line_{io_.get_executor(), 6};
  std::map<std::string, std::shared_ptr<WaitingLine::Ticket>> tickets_;
  std::set<std::string> granted_;
};

TEST_F(Line, TheFirstOfATenantIsFirst) {
  EXPECT_EQ(next(), "nobody");
  for (const char* name : {"c", "a", "b"}) join("t", name);
  for (const char* name : {"c", "a", "b"}) EXPECT_EQ(next(), name);
  EXPECT_EQ(next(), "nobody");
  EXPECT_EQ(line_.size(), 0u);
}

TEST_F(Line, TenantsHaveTheirTurns) {
  for (const char* name : {"a1", "a2", "a3", "a4"}) join("a", name);
  join("b", "b1");
  join("c", "c1");
  EXPECT_EQ(next(), "a1");
  EXPECT_EQ(next(), "b1");
  EXPECT_EQ(next(), "c1");
  EXPECT_EQ(next(), "a2");
  join("b", "b2");  // comes again, behind the one whose turn it is
  EXPECT_EQ(next(), "a3");
  EXPECT_EQ(next(), "b2");
  EXPECT_EQ(next(), "a4");
  EXPECT_EQ(next(), "nobody");
}

TEST_F(Line, WhoLeavesIsNotWaitedFor) {
  join("a", "a1");
  join("b", "b1");
  join("a", "a2");
  line_.leave(tickets_["a1"]);
  EXPECT_EQ(line_.size(), 2u);
  EXPECT_EQ(next(), "a2");
  line_.leave(tickets_["b1"]);
  line_.leave(tickets_["b1"]);
  EXPECT_EQ(line_.size(), 0u);
  EXPECT_EQ(next(), "nobody");
}

TEST_F(Line, IsNoLongerThanItMayBe) {
  for (const char* name : {"1", "2", "3", "4", "5", "6"}) join("a", name);
  join("a", "7");
  EXPECT_FALSE(tickets_["7"]);
  EXPECT_EQ(line_.size(), 6u);
}

TEST_F(Line, WhoHasManyMakesRoomForWhoHasFew) {
  for (const char* name : {"1", "2", "3", "4", "5", "6"}) join("a", name);
  join("b", "b1");
  ASSERT_TRUE(tickets_["b1"]);
  EXPECT_TRUE(tickets_["6"]->refused);
  EXPECT_FALSE(tickets_["5"]->refused);
  join("b", "b2");
  join("b", "b3");
  EXPECT_TRUE(tickets_["b3"]);
  join("b", "b4");  // both have three
  EXPECT_FALSE(tickets_["b4"]);
  EXPECT_EQ(line_.size(), 6u);
  EXPECT_EQ(next(), "1");
  EXPECT_EQ(next(), "b1");
}

}  // namespace
}  // namespace tb::session
