// SPDX-License-Identifier: Apache-2.0
#include "storage/artifacts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/test_loop.h"
#include "os/test_dir.h"
#include "storage/artifact_files.h"

namespace tb::storage {
namespace {

namespace fs = std::filesystem;

class ArtifactsTest : public ::testing::Test {
 protected:
  std::unique_ptr<Artifacts> open(ArtifactLimits limits = {}) {
    return std::make_unique<Artifacts>(loop_.executor(), dir_.path() + "/artifacts", limits);
  }
  Artifact keep(Artifacts& artifacts, const std::string& session, std::string bytes) {
    Artifact like;
    like.session = session;
    like.user = "u";
    like.name = "n";
    like.type = "text/plain";
    like.origin = "code";
    return loop_.run(artifacts.keep(std::move(like), std::move(bytes)));
  }
  static awaitable<std::string> read_all(Artifacts& artifacts, std::string id) {
    const auto file = co_await artifacts.read(id);
    std::string bytes(file->info().size.count, '\0');
    const std::span<char> room{bytes};
    const std::size_t got = co_await file->read(0, room);
    co_return bytes.substr(0, got);
  }
  std::string read(Artifacts& artifacts, const std::string& id) {
    return loop_.run(read_all(artifacts, id));
  }

  TestLoop loop_;
  os::TestDir dir_;
};

TEST_F(ArtifactsTest, KeepsBytesForTheNextServerToo) {
  auto first = open();
  const Artifact kept = keep(*first, "s-1", "hello");
  EXPECT_EQ(kept.size, 5_B);
  EXPECT_EQ(read(*first, kept.id), "hello");
  first.reset();
  auto next = open();
  ASSERT_EQ(next->list("", "s-1").size(), 1u);
  EXPECT_EQ(next->get(kept.id).name, "n");
  EXPECT_EQ(read(*next, kept.id), "hello");
  EXPECT_EQ(next->used(), 5_B + 4_KiB);
  EXPECT_TRUE(next->list("", "s-2").empty());
  EXPECT_TRUE(next->list("", "", "v").empty());
}

TEST_F(ArtifactsTest, KeepsAnEmptyFileAndOneOfManyPieces) {
  auto artifacts = open();
  EXPECT_EQ(read(*artifacts, keep(*artifacts, "s", "").id), "");
  const std::string large(1 << 20, 'x');
  EXPECT_EQ(keep(*artifacts, "s", large).size, 1_MiB);
}

TEST_F(ArtifactsTest, RefusesWhatIsTooMuchAndLeavesNothingOfIt) {
  ArtifactLimits limits;
  limits.per_session = 10_B + 8_KiB;
  limits.in_all = 15_B + 8_KiB;
  limits.count = 2;
  auto artifacts = open(limits);
  keep(*artifacts, "a", "12345678");
  EXPECT_THROW(keep(*artifacts, "a", "123"), ArtifactsFull);
  EXPECT_THROW(keep(*artifacts, "b", "12345678"), ArtifactsFull);
  EXPECT_EQ(artifacts->used(), 8_B + 4_KiB);
  EXPECT_TRUE(artifacts->list("", "b").empty());
  keep(*artifacts, "a", "1");
  EXPECT_THROW(keep(*artifacts, "a", ""), ArtifactsFull);
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator{dir_.path() + "/artifacts"}) {
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(files, 4u);  // two with their descriptions
}

TEST_F(ArtifactsTest, EmptyOnesTakeRoomAndAreCounted) {
  ArtifactLimits limits;
  limits.per_session = 1_MiB;
  limits.in_all = 12_KiB;
  auto artifacts = open(limits);
  for (const char* session : {"a", "b", "c"}) keep(*artifacts, session, "");
  EXPECT_THROW(keep(*artifacts, "d", ""), ArtifactsFull);
  artifacts.reset();
  limits.in_all = 1_MiB;
  limits.count_in_all = 4;
  auto next = open(limits);
  EXPECT_EQ(next->used(), 12_KiB);
  const Artifact last = keep(*next, "d", "x");
  EXPECT_THROW(keep(*next, "e", ""), ArtifactsFull);
  EXPECT_TRUE(next->list("", "e").empty());
  loop_.run(next->remove(last.id));
  EXPECT_EQ(next->used(), 12_KiB);
  keep(*next, "e", "");
}

TEST_F(ArtifactsTest, RemovesOnesAndTheirRoomIsFreeAgain) {
  auto artifacts = open();
  const Artifact kept = keep(*artifacts, "s", "hello");
  loop_.run(artifacts->remove(kept.id));
  EXPECT_EQ(artifacts->used(), 0_B);
  EXPECT_TRUE(artifacts->list("", "s").empty());
  EXPECT_THROW(artifacts->get(kept.id), Error);
  EXPECT_FALSE(fs::exists(dir_.path() + "/artifacts/session_s"));
}

TEST_F(ArtifactsTest, ForgetsWhatIsTooOld) {
  auto artifacts = open();
  const Artifact kept = keep(*artifacts, "s", "hello");
  EXPECT_EQ(artifacts->expire(kept.created + std::chrono::hours{24}), 0u);
  EXPECT_EQ(artifacts->expire(kept.created + std::chrono::hours{31 * 24}), 1u);
  EXPECT_EQ(artifacts->count(), 0u);
}

TEST_F(ArtifactsTest, ShowsNothingHalf) {
  const std::string place = dir_.path() + "/artifacts/session_s/";
  const Artifact kept = keep(*open(), "s", "hello");
  std::ofstream{place + "half"} << "bytes without a description";
  std::ofstream{place + "other.json.new"} << "{";
  std::ofstream{place + "gone.json"} << R"({"id":"gone","session":"s","size":3})";
  fs::create_directories(place + "directory");
  auto artifacts = open();
  EXPECT_EQ(artifacts->count(), 1u);
  std::size_t names = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator{place}) ++names;
  EXPECT_EQ(names, 2u);
  EXPECT_EQ(read(*artifacts, kept.id), "hello");
}

TEST_F(ArtifactsTest, TakesNoSessionThatWouldBeAPath) {
  auto artifacts = open();
  for (const char* session : {"", "..", "../x", "a/b", "A", "a.b"}) {
    EXPECT_THROW(keep(*artifacts, session, "x"), Error) << session;
  }
  EXPECT_FALSE(is_session_name(std::string(65, 'a')));
}

TEST(MediaTypes, AreToldByTheName) {
  EXPECT_EQ(media_type_of("a.png"), "image/png");
  EXPECT_EQ(media_type_of("a"), "application/octet-stream");
}

}  // namespace
}  // namespace tb::storage
