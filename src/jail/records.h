// SPDX-License-Identifier: Apache-2.0
// What is known about sandboxes whose files are to outlive the keeper: a small file for each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "jail/wire.h"

namespace tb::jail {

struct Record {
  std::string environment;
  Limits limits;
  std::uint32_t slot = 0;
  std::uint64_t ttl_ms = 0;
  std::string label;
  std::vector<std::string> programs;  // what it is confined to; empty: it is not
  std::vector<Mount> mounts = {};
};

class Records {
 public:
  explicit Records(std::string dir);
  // All that can be read; a damaged one is set aside under another name and told by damaged().
  std::map<std::string, Record> load();
  const std::vector<std::string>& damaged() const { return damaged_; }
  void save(const std::string& id, const Record& record);
  void remove(const std::string& id);

 private:
  std::string dir_;
  std::vector<std::string> damaged_;
};

}  // namespace tb::jail
