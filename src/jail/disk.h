// SPDX-License-Identifier: Apache-2.0
// Writable trees of sandboxes, each limited in bytes while it is written to, and kept on disk.
// docs/decisions/0002-disk.md says why it is done this way.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "os/fd.h"
#include "os/loop.h"

namespace tb::jail {

class Disk {
 public:
  // What limits bytes here: a btrfs pool in an image of its own, or nothing.
  enum class Kind { btrfs, plain };

  // `dir` holds the image or the plain trees. `why_plain` tells why there is no limit. Throws when
  // there is a pool that can't be opened: going on without it would lose what is in it.
  Disk(const std::string& dir, bool privileged);
  ~Disk();  // lets the pool go: after the last sandbox
  Disk(const Disk&) = delete;
  Disk& operator=(const Disk&) = delete;

  Kind kind() const { return kind_; }
  const std::string& why_plain() const { return why_plain_; }

  // Makes the tree `id`, or opens the one that is there (`existed`), with the sub-directories
  // workspace, tmp, home and sandbox belonging to `tenant`, and the top to `guest`.
  struct Tree {
    os::Fd top;
    bool existed = false;
  };
  Tree open_tree(const std::string& id, Bytes limit, std::uint32_t guest, std::uint32_t tenant);
  void remove_tree(const std::string& id);
  // Keeps it under another name, for somebody to look at.
  void set_aside(const std::string& id);
  std::vector<std::string> list() const;

  // Directories in a tree and nothing else, as a layer of the root: places to mount on. What was
  // there of an earlier set is gone.
  os::Fd make_points(const std::string& id, const std::vector<std::string>& paths);

  // What a tree may hold from now on.
  void limit_tree(const os::Fd& top, Bytes limit) const;

  // Trees that belong to no sandbox, apart from the others, with everything in them `owner`'s.
  enum class Missing { is_made, is_an_error };
  os::Fd open_volume(const std::string& id, Bytes limit, std::uint32_t owner, Missing missing);
  void remove_volume(const std::string& id);
  std::vector<std::string> volumes() const;

  // Keeps room ahead of what is written, as long as the host's disk has some; call it often.
  void keep_room();
  // Forgets what deleted trees left in the pool's books.
  void tidy();

 private:
  void make_pool(const std::string& dir);
  void open_pool(const std::string& dir);
  void drop_pool(const std::string& dir);
  bool grow(Bytes step);
  Bytes free_room() const;
  void make_tree(const os::Fd& parent, const std::string& name);
  void drop_tree(const os::Fd& parent, const std::string& path, const std::string& name);
  std::string volumes_path() const;
  os::Fd volumes_dir(Missing missing) const;

  Kind kind_ = Kind::plain;
  std::string why_plain_;
  std::string image_path_;
  os::Fd image_;
  os::loop::Device device_;
  os::Fd root_;  // where the trees are
  std::string root_path_;
  bool simple_quotas_ = false;
  std::vector<std::uint64_t> stale_groups_;
};

}  // namespace tb::jail
