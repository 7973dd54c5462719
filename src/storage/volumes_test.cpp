// SPDX-License-Identifier: Apache-2.0
#include "storage/volumes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/test_loop.h"
#include "sandbox/fake_provider.h"

namespace tb::storage {
namespace {

class Host : public sandbox::FakeProvider, public sandbox::VolumeHost {
 public:
  using sandbox::FakeProvider::FakeProvider;
  sandbox::VolumeHost* volumes() override { return this; }
  awaitable<void> make_volume(std::string id, Bytes limit, std::string label) override {
    kept.push_back({id, limit, true, label, {}});
    co_return;
  }
  awaitable<std::vector<sandbox::VolumeInfo>> list_volumes(std::string begins) override {
    std::vector<sandbox::VolumeInfo> found;
    for (const sandbox::VolumeInfo& one : kept) {
      if (one.label.starts_with(begins)) found.push_back(one);
    }
    told += found.size();
    co_return found;
  }
  awaitable<void> remove_volume(std::string id) override {
    std::erase_if(kept, [&](const auto& info) { return info.id == id; });
    co_return;
  }
  std::vector<sandbox::VolumeInfo> kept;
  std::size_t told = 0;
};

class VolumesTest : public ::testing::Test {
 protected:
  Volume create(const std::string& user, const std::string& name,
                std::optional<Bytes> limit = std::nullopt) {
    return loop_.run(volumes_.create(Owner{"", user}, name, limit));
  }
  std::vector<sandbox::Mount> resolve(const std::string& user, std::vector<VolumeUse> uses) {
    return loop_.run(volumes_.resolve(Owner{"", user}, std::move(uses)));
  }
  Code refusal(const std::string& user, std::vector<VolumeUse> uses) {
    try {
      resolve(user, std::move(uses));
    } catch (const Error& error) {
      return error.code();
    }
    return Code::internal;
  }

  TestLoop loop_;
  Host host_{loop_.executor()};
  Volumes volumes_{loop_.executor(), host_, {1_GiB, 2_GiB, 2}};
};

TEST_F(VolumesTest, BelongToUsersByName) {
  const Volume mine = create("u", "v");
  const Volume other = create("w", "v", 1_MiB);
  EXPECT_NE(mine.id, other.id);
  EXPECT_EQ(mine.limit, 1_GiB);
  EXPECT_EQ(loop_.run(volumes_.list(Owner{"", "u"})).size(), 1u);
  EXPECT_EQ(loop_.run(volumes_.list_tenant("")).size(), 2u);
  EXPECT_EQ(loop_.run(volumes_.get(Owner{"", "w"}, "v")).id, other.id);
  EXPECT_THROW(create("u", "v"), Error);
  create("u", "v2");
  EXPECT_THROW(create("u", "v3"), Error);
}

TEST_F(VolumesTest, OfOneTenantAreUnknownToAnother) {
  const Volume ours = create("u", "v");
  const Volume theirs = loop_.run(volumes_.create(Owner{"acme", "u"}, "v", std::nullopt));
  EXPECT_NE(ours.id, theirs.id);
  EXPECT_EQ(loop_.run(volumes_.list_tenant("acme")).size(), 1u);
  EXPECT_EQ(loop_.run(volumes_.list(Owner{"acme", "u"}))[0].id, theirs.id);
  EXPECT_EQ(loop_.run(volumes_.get(Owner{"", "u"}, "v")).id, ours.id);
  EXPECT_THROW(loop_.run(volumes_.get(Owner{"other", "u"}, "v")), Error);
  loop_.run(volumes_.remove(Owner{"acme", "u"}, "v"));
  EXPECT_EQ(resolve("u", {{"v", "/data"}})[0].source, ours.id);
}

TEST_F(VolumesTest, OfBeforeTenantsAreTheDefaultOnes) {
  host_.kept.push_back({"x", 1_MiB, true, R"({"user":"u","name":"old","created":1})", {}});
  host_.kept.push_back({"y", 1_MiB, true, R"({"tenant":7,"user":"u","name":"odd"})", {}});
  EXPECT_EQ(loop_.run(volumes_.get(Owner{"", "u"}, "old")).id, "x");
  EXPECT_THROW(loop_.run(volumes_.get(Owner{"", "u"}, "odd")), Error);
}

TEST_F(VolumesTest, OfOthersAreNotEvenLookedAt) {
  for (const char* user : {"u", "u2", "\"u", "\xc3\xa9"}) create(user, "v");
  host_.told = 0;
  for (const char* user : {"u", "u2", "\"u", "\xc3\xa9"}) {
    EXPECT_EQ(loop_.run(volumes_.get(Owner{"", user}, "v")).owner.user, user);
    resolve(user, {{"v", "/data"}});
  }
  EXPECT_EQ(host_.told, 8u);
}

TEST_F(VolumesTest, HaveNamesAndSizesThatCanBe) {
  for (const char* name : {"", ".", "..", "a/b", "-x", ".x", "a b", "\xc3\xa9"}) {
    EXPECT_THROW(create("u", name), Error) << name;
  }
  EXPECT_FALSE(is_volume_name(std::string(65, 'a')));
  EXPECT_TRUE(is_volume_name("A_1.b-c"));
  EXPECT_THROW(create("u", "v", 3_GiB), Error);
  EXPECT_THROW(create("u", "v", 1_KiB), Error);
}

TEST_F(VolumesTest, AreMountedForTheirUserAlone) {
  const Volume mine = create("u", "v");
  const auto mounts = resolve("u", {{"v", "/data", true}});
  ASSERT_EQ(mounts.size(), 1u);
  EXPECT_EQ(mounts[0].source, mine.id);
  EXPECT_TRUE(mounts[0].read_only);
  EXPECT_EQ(refusal("w", {{"v", "/data"}}), Code::not_found);
  EXPECT_EQ(refusal("u", {{"v", "/workspace"}}), Code::invalid);
  EXPECT_EQ(refusal("u", {{"v", "/a"}, {"v", "/a/b"}}), Code::invalid);
  EXPECT_EQ(refusal("u", std::vector<VolumeUse>(17, {"v", "/a"})), Code::invalid);
}

TEST_F(VolumesTest, AreMadeForEnvironmentsThatNameThem) {
  VolumeUse use{"cache", "/cache"};
  use.made_if_missing = true;
  const auto first = resolve("u", {use});
  EXPECT_EQ(resolve("u", {use})[0].source, first[0].source);
  EXPECT_NE(resolve("w", {use})[0].source, first[0].source);
}

TEST_F(VolumesTest, StayWhileSomebodyHasThem) {
  create("u", "v");
  host_.kept[0].users = {"session-1", "volume-1234"};
  try {
    loop_.run(volumes_.remove(Owner{"", "u"}, "v"));
    FAIL() << "it was removed";
  } catch (const VolumeInUse& error) {
    EXPECT_EQ(error.sessions(), std::vector<std::string>{"session-1"});
  }
  host_.kept[0].users.clear();
  loop_.run(volumes_.remove(Owner{"", "u"}, "v"));
  EXPECT_TRUE(host_.kept.empty());
}

TEST_F(VolumesTest, LabelsOfOthersAreLeftAlone) {
  host_.kept.push_back({"x", 1_MiB, true, "not ours", {}});
  EXPECT_TRUE(loop_.run(volumes_.list_tenant("")).empty());
}

}  // namespace
}  // namespace tb::storage
