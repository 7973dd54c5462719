// SPDX-License-Identifier: Apache-2.0
#include "config_sources.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "base/error.h"
#include "os/test_dir.h"

namespace tb {
namespace {

// Settings of the one who runs the tests are out of the way; none is left behind.
class ConfigSources : public testing::Test {
 protected:
  ConfigSources() { clear(); }
  ~ConfigSources() override { clear(); }

  static void clear() {
    ::unsetenv("THREADBOX_CONFIG");
    for (const Setting& setting : settings()) ::unsetenv(setting.name.c_str());
  }
  std::string file(const std::string& text) {
    std::ofstream{dir_ / "conf"} << text;
    return dir_ / "conf";
  }
  // What is wrong with a file.
  std::string complaint(const std::string& text) {
    try {
      read_config(gather_settings(file(text)));
      return {};
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid);
      return error.what();
    }
  }
  static ShownSetting shown(const GivenSettings& given, const std::string& name) {
    for (ShownSetting& row : show_settings(read_config(given), given)) {
      if (row.name == name) return row;
    }
    return {};
  }

  os::TestDir dir_;
};

TEST_F(ConfigSources, LaterOnesCount) {
  const std::string path = file("PORT=1\nPOOL_SIZE=4\nMAX_POOL_SIZE=11\nWORKER_ID=from file\n");
  ::setenv("PORT", "2", 1);
  ::setenv("MAX_POOL_SIZE", "12", 1);
  ::setenv("WORKER_ID", "", 1);  // as good as unset
  const GivenSettings given = gather_settings(path, {{"PORT", "3"}, {"POOL_SIZE", ""}});
  const Config config = read_config(given);
  EXPECT_EQ(config.port, 3);
  EXPECT_EQ(config.max_pool_size, 12u);
  EXPECT_EQ(config.pool_size, 4u);
  EXPECT_EQ(config.worker_id, "from file");
  EXPECT_EQ(shown(given, "PORT").origin, "flag");
  EXPECT_EQ(shown(given, "MAX_POOL_SIZE").origin, "environment");
  EXPECT_EQ(shown(given, "POOL_SIZE").origin, "file " + path + ":2");
  EXPECT_EQ(shown(given, "HOST").origin, "default");
  EXPECT_EQ(shown(given, "HOST").value, "127.0.0.1");
}

TEST_F(ConfigSources, TheEnvironmentNamesAFileAndAFlagAnother) {
  ::setenv("THREADBOX_CONFIG", file("PORT=7\n").c_str(), 1);
  EXPECT_EQ(read_config().port, 7);
  std::ofstream{dir_ / "other"} << "PORT=8\n";
  EXPECT_EQ(read_config(gather_settings(dir_ / "other")).port, 8);
  ::setenv("THREADBOX_CONFIG", (dir_ / "none").c_str(), 1);
  EXPECT_THROW(read_config(), Error);
}

TEST_F(ConfigSources, FilesAreReadAsEnvironmentFilesAre) {
  const Config config = read_config(
      gather_settings(file("# a comment\n; another\n\n  PORT = 9  \r\nWORKER_ID=\"a 'b' #c\"\n"
                           "STATE_DIR='/x \"y\"'\nHOST=\nREGISTRY_DIR=/a=b#c")));
  EXPECT_EQ(config.port, 9);
  EXPECT_EQ(config.worker_id, "a 'b' #c");
  EXPECT_EQ(config.state_dir, "/x \"y\"");
  EXPECT_EQ(config.host, "127.0.0.1");
  EXPECT_EQ(config.registry_dir, "/a=b#c");
}

TEST_F(ConfigSources, AllThatIsWrongWithAFileIsToldWithItsLine) {
  const std::string text =
      complaint("PORT\nPOOL_SIZ=3\n\nWORKER_ID=\"x\nPORT=1\nPORT=2\nHOST=\x1b\n");
  for (const char* part : {"conf:1: must be NAME=VALUE", "conf:2: \"POOL_SIZ\" is no setting",
                           "conf:4: WORKER_ID: a quote", "conf:6: PORT is given twice, first in",
                           "conf:7: has a control character"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
  EXPECT_NE(complaint("\nPORT=x\n").find("PORT=x: must be"), std::string::npos);
  EXPECT_NE(complaint("\nPORT=x\n").find("conf:2)"), std::string::npos);
}

TEST_F(ConfigSources, SecretsAreNeitherShownNorFlags) {
  const std::string secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const GivenSettings given = gather_settings(file("WEBHOOK_SECRET=" + secret + "\n"));
  EXPECT_EQ(shown(given, "WEBHOOK_SECRET").value, "(hidden)");
  EXPECT_EQ(complaint("WEBHOOK_SECRET=whsec_wrong\n").find("whsec_wrong"), std::string::npos);
  const std::set<std::string> secrets{
      "WEBHOOK_SECRET", "REDIS_PASSWORD", "REDIS_SENTINEL_PASSWORD", "E2B_API_KEY",
      "CLUSTER_SECRET", "JWT_SECRET",     "WORKSPACE_S3_SECRET"};
  for (const Setting& setting : settings()) {
    EXPECT_EQ(flag_of(setting).empty(), secrets.contains(setting.name)) << setting.name;
  }
}

TEST_F(ConfigSources, WhatDependsOnOthersIsShownAsItIs) {
  const GivenSettings given = gather_settings(file("POOL_SIZE=2\nDEBUG=true\n"));
  EXPECT_EQ(shown(given, "MIN_POOL_SIZE").value, "2");
  EXPECT_EQ(shown(given, "LOG_LEVEL").value, "debug");
  EXPECT_NE(shown(given, "LOG_LEVEL").origin, "default");
  EXPECT_FALSE(shown(given, "STATE_DIR").value.empty());
}

}  // namespace
}  // namespace tb
