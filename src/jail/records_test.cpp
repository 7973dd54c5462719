// SPDX-License-Identifier: Apache-2.0
#include "jail/records.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "os/fd.h"
#include "os/test_dir.h"

namespace tb::jail {
namespace {

namespace fs = std::filesystem;

Record example() {
  Record record;
  record.environment = "image:/srv/python";
  record.limits = {.memory = 11, .disk = 12, .cpu_quota = 13, .pids = 14, .open_files = 15};
  record.slot = 99999;
  record.ttl_ms = 1800000;
  record.label = std::string("{\"thread\":\"t\"}\0\xff", 16);
  record.programs = {"ls", "["};
  record.mounts = {{Mount::Kind::volume, 1, "v-1", "/data"},
                   {Mount::Kind::directory, 0, "/srv/x", "/mnt/x"}};
  return record;
}

TEST(Records, WhatIsSavedIsLoadedByAnother) {
  os::TestDir dir;
  Records first{dir / "records"};
  first.save("a-1", example());
  Record other;
  other.environment = "host";
  first.save("b-2", other);
  Records second{dir / "records"};
  const std::map<std::string, Record> all = second.load();
  ASSERT_EQ(all.size(), 2u);
  const Record& loaded = all.at("a-1");
  EXPECT_EQ(loaded.environment, example().environment);
  EXPECT_EQ(loaded.limits.memory, 11u);
  EXPECT_EQ(loaded.limits.disk, 12u);
  EXPECT_EQ(loaded.limits.cpu_quota, 13u);
  EXPECT_EQ(loaded.limits.pids, 14u);
  EXPECT_EQ(loaded.limits.open_files, 15u);
  EXPECT_EQ(loaded.slot, 99999u);
  EXPECT_EQ(loaded.ttl_ms, 1800000u);
  EXPECT_EQ(loaded.label, example().label);
  EXPECT_EQ(loaded.programs, example().programs);
  EXPECT_EQ(loaded.mounts, example().mounts);
  EXPECT_EQ(all.at("b-2").environment, "host");
  EXPECT_EQ(second.damaged().size(), 0u);
}

TEST(Records, OneOfTheFirstFormatIsReadAsUnconfined) {
  os::TestDir dir;
  Records records{dir.path()};
  Record record = example();
  record.programs.clear();
  record.mounts.clear();
  records.save("x", record);
  std::string text = os::read_file(dir / "x");
  text[0] = '1';  // "TBR1", little-endian
  text.resize(text.size() - 8);
  os::replace_file(dir / "x", text, 0600);
  const std::map<std::string, Record> all = records.load();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all.at("x").label, record.label);
  EXPECT_TRUE(all.at("x").programs.empty());
}

TEST(Records, OneOfTheSecondFormatHasNoMounts) {
  os::TestDir dir;
  Records records{dir.path()};
  Record record = example();
  record.mounts.clear();
  records.save("x", record);
  std::string text = os::read_file(dir / "x");
  text[0] = '2';
  text.resize(text.size() - 4);
  os::replace_file(dir / "x", text, 0600);
  const std::map<std::string, Record> all = records.load();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all.at("x").programs, record.programs);
  EXPECT_TRUE(all.at("x").mounts.empty());
}

TEST(Records, ARecordThatWouldMountOverTheSystemIsDamaged) {
  os::TestDir dir;
  Records records{dir.path()};
  Record record = example();
  record.mounts[0].target = "/etc";
  records.save("x", record);
  EXPECT_TRUE(records.load().empty());
}

TEST(Records, ARecordWithAPathForAProgramIsDamaged) {
  os::TestDir dir;
  Records records{dir.path()};
  Record record = example();
  record.programs = {"../rm"};
  records.save("x", record);
  EXPECT_TRUE(records.load().empty());
  EXPECT_EQ(records.damaged().size(), 1u);
}

TEST(Records, TheLastSaveCountsAndARemovedOneIsGone) {
  os::TestDir dir;
  Records records{dir.path()};
  Record record = example();
  records.save("x", record);
  record.label = "new";
  records.save("x", record);
  EXPECT_EQ(records.load().at("x").label, "new");
  records.remove("x");
  records.remove("x");
  EXPECT_TRUE(records.load().empty());
}

TEST(Records, ADamagedOneIsSetAsideAndCounted) {
  os::TestDir dir;
  Records records{dir.path()};
  records.save("good", example());
  const std::string whole = os::read_file(dir / "good");
  os::replace_file(dir / "empty", "", 0600);
  os::replace_file(dir / "short", std::string_view{whole}.substr(0, whole.size() - 1), 0600);
  os::replace_file(dir / "long", whole + "x", 0600);
  os::replace_file(dir / "other", "not a record at all", 0600);
  EXPECT_EQ(records.load().size(), 1u);
  EXPECT_EQ(records.damaged().size(), 4u);
  EXPECT_EQ(os::read_file(dir / "other.damaged"), "not a record at all");
  EXPECT_FALSE(fs::exists(dir / "short"));
  Records again{dir.path()};
  EXPECT_EQ(again.load().size(), 1u);
  EXPECT_EQ(again.damaged().size(), 0u);
}

TEST(Records, EveryShorterFileIsDamaged) {
  os::TestDir dir;
  Records records{dir.path()};
  records.save("x", example());
  const std::string whole = os::read_file(dir / "x");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    os::replace_file(dir / "x", std::string_view{whole}.substr(0, size), 0600);
    EXPECT_TRUE(records.load().empty()) << size;
  }
  EXPECT_EQ(records.damaged().size(), whole.size());
}

TEST(Records, TemporaryFilesAreIgnored) {
  os::TestDir dir;
  Records records{dir.path()};
  os::replace_file(dir / "a.new", "half writ", 0600);
  os::replace_file(dir / "UPPER", "x", 0600);
  EXPECT_TRUE(records.load().empty());
  EXPECT_EQ(records.damaged().size(), 0u);
  EXPECT_TRUE(fs::exists(dir / "a.new"));
}

// One thing in the way must not keep all others from being found.
TEST(Records, ADirectoryAmongThemIsNotTheEndOfTheOthers) {
  os::TestDir dir;
  Records records{dir.path()};
  records.save("good", example());
  fs::create_directory(dir / "directory");
  fs::create_symlink("nowhere", dir / "dangling");
  EXPECT_EQ(records.load().size(), 1u);
}

TEST(Records, AreForTheirOwnerAlone) {
  os::TestDir dir;
  Records records{dir.path()};
  records.save("x", example());
  EXPECT_EQ(fs::status(dir / "x").permissions(), fs::perms{0600});
}

}  // namespace
}  // namespace tb::jail
