// SPDX-License-Identifier: Apache-2.0
// What a server must know after a restart of sandboxes that another system runs for it, in files:
// what that system keeps with a sandbox can't be changed once it is made, and its owner is known
// only later.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "base/units.h"

namespace tb::box {

struct Record {
  std::string machine;  // as the other system calls it, if by another name than ours
  std::string label;
  Milliseconds idle{0};
  std::chrono::system_clock::time_point used = {};
};

class Records {
 public:
  // `dir` is made if it is not there.
  explicit Records(std::string dir);

  // Names this server's sandboxes among all that the other system has: random, and kept.
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

}  // namespace tb::box
