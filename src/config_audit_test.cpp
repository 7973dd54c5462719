// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "config.h"

namespace tb {
namespace {

// What is wrong with the value; empty: nothing.
std::string apply(Config& config, const std::string& name, const std::string& value) {
  for (const Setting& setting : audit_settings()) {
    if (setting.name == name) return setting.apply(config, value);
  }
  return "there is no " + name;
}

TEST(AuditSettings, AreRead) {
  Config config;
  EXPECT_EQ(apply(config, "AUDIT_LOG", "/var/log/threadbox"), "");
  EXPECT_TRUE(config.audit);
  EXPECT_EQ(config.audit_dir, "/var/log/threadbox");
  EXPECT_EQ(apply(config, "AUDIT_LOG", "off"), "");
  EXPECT_FALSE(config.audit);
  EXPECT_EQ(apply(config, "AUDIT_MAX_BYTES", "2m"), "");
  EXPECT_EQ(config.audit_max_bytes.count, 2u << 20);
  EXPECT_EQ(apply(config, "AUDIT_KEEP", "0"), "");
  EXPECT_EQ(config.audit_keep, 0u);
  EXPECT_EQ(apply(config, "AUDIT_REDACT", " a+  b{2,3}\nc "), "");
  EXPECT_EQ(config.audit_redact, (std::vector<std::string>{"a+", "b{2,3}", "c"}));
}

TEST(AuditSettings, WhatIsJustOutsideIsRefused) {
  const struct {
    const char* name;
    const char* value;
  } rows[] = {{"AUDIT_LOG", "relative/path"}, {"AUDIT_LOG", ""},      {"AUDIT_MAX_BYTES", "65535"},
              {"AUDIT_MAX_BYTES", "1025g"},   {"AUDIT_KEEP", "1001"}, {"AUDIT_KEEP", "-1"},
              {"AUDIT_REDACT", "fine (wrong"}};
  for (const auto& row : rows) {
    Config config;
    EXPECT_NE(apply(config, row.name, row.value), "") << row.name << "=" << row.value;
  }
}

}  // namespace
}  // namespace tb
