// SPDX-License-Identifier: Apache-2.0
// Volumes: trees that belong to no sandbox, and are mounted into those that ask for them. Each has
// an id, a limit, the server's words about it, and a record that outlives the keeper.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/units.h"
#include "jail/disk.h"
#include "os/fd.h"

namespace tb::jail {

class Volumes {
 public:
  struct Volume {
    Bytes limit;
    std::string label;
  };

  // Records are in `dir`, trees on `disk`, which outlives this. Trees without a record are what a
  // keeper left that died while it made them: they go.
  Volumes(Disk& disk, std::string dir, bool root);

  const std::map<std::string, Volume>& all() const { return volumes_; }
  // Whether the kernel holds them to their limits.
  bool limited() const { return disk_.kind() == Disk::Kind::btrfs; }

  // Throws Error{conflict} when there is one, Error{exhausted} when there are too many or no room.
  void make(const std::string& id, Bytes limit, const std::string& label);
  // The caller sees to it that nobody has it. Throws Error{not_found}.
  void remove(const std::string& id);
  // A detached mount of it, on which it belongs to `tenant`. Throws Error{not_found}.
  os::Fd mount(const std::string& id, std::uint32_t tenant, unsigned attributes) const;

 private:
  std::string record_path(const std::string& id) const { return dir_ + "/" + id; }

  Disk& disk_;
  const std::string dir_;
  const bool root_;
  std::map<std::string, Volume> volumes_;
};

}  // namespace tb::jail
