// SPDX-License-Identifier: Apache-2.0
// What a server must know of its sandboxes after a restart, in files: the metadata of a sandbox
// can't be changed once it is made, and its owner is known only later.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "base/units.h"

namespace tb::e2b {

struct Record {
  std::string machine;  // as E2B calls it
  std::string label;
  Milliseconds idle{0};
  std::chrono::system_clock::time_point used = {};
};

class Records {
 public:
  // `dir` is made if it is not there.
  explicit Records(std::string dir);

  // Names this server's sandboxes among all of a team: random, and kept.
  const std::string& tag() const { return tag_; }
  void put(const std::string& id, const Record& record) const;
  // It was used now.
  void touch(const std::string& id) const;
  std::optional<Record> find(const std::string& id) const;
  std::map<std::string, Record> all() const;
  void remove(const std::string& id) const;

 private:
  std::string path(const std::string& id) const { return dir_ + "/" + id + ".box"; }

  std::string dir_;
  std::string tag_;
};

}  // namespace tb::e2b
