// SPDX-License-Identifier: Apache-2.0
#include "jail/records.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

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

// The fields begin behind format, checksum and their size.
std::string fields_of(const std::string& saved) { return saved.substr(4 + 8 + 4); }

// As it was written before there were checksums.
std::string earlier(char format, const std::string& saved) {
  return std::string{format} + "RBT" + fields_of(saved);
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
  std::string text = earlier('1', os::read_file(dir / "x"));
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
  std::string text = earlier('2', os::read_file(dir / "x"));
  text.resize(text.size() - 4);
  os::replace_file(dir / "x", text, 0600);
  const std::map<std::string, Record> all = records.load();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all.at("x").programs, record.programs);
  EXPECT_TRUE(all.at("x").mounts.empty());
}

TEST(Records, OneOfTheThirdFormatHasEverythingButAChecksum) {
  os::TestDir dir;
  Records records{dir.path()};
  records.save("x", example());
  os::replace_file(dir / "x", earlier('3', os::read_file(dir / "x")), 0600);
  EXPECT_EQ(records.load().at("x").mounts, example().mounts);
}

TEST(Records, OneIsWrittenOverWithoutANewFile) {
  os::TestDir dir;
  Records records{dir.path()};
  Record record = example();
  record.label = std::string(1000, 'a');
  records.save("x", record);
  const auto inode = [&] {
    struct stat info{};
    EXPECT_EQ(::stat((dir / "x").c_str(), &info), 0);
    return info.st_ino;
  };
  const ino_t first = inode();
  for (const std::size_t size : {3, 2000, 0, 500}) {
    record.label = std::string(size, 'b');
    records.save("x", record);
    EXPECT_EQ(records.load().at("x").label, record.label);
    EXPECT_EQ(inode(), first);
  }
  record.label = std::string(5000, 'c');  // more than is surely written in one go
  records.save("x", record);
  EXPECT_EQ(records.load().at("x").label, record.label);
  EXPECT_NE(inode(), first);
}

TEST(Records, OneWithAnyOtherByteIsDamaged) {
  os::TestDir dir;
  Records records{dir.path()};
  records.save("x", example());
  const std::string whole = os::read_file(dir / "x");
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string text = whole;
    text[at] = static_cast<char>(text[at] ^ 0x40);
    os::replace_file(dir / "x", text, 0600);
    EXPECT_TRUE(records.load().empty()) << at;
  }
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
  os::replace_file(dir / "other", "not a record at all", 0600);
  EXPECT_EQ(records.load().size(), 1u);
  EXPECT_EQ(records.damaged().size(), 3u);
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
