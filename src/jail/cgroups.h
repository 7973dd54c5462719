// SPDX-License-Identifier: Apache-2.0
// Cgroups of sandboxes on v2, v1 and hybrid hosts: limits, placing, ending, removing.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "guest/wire.h"
#include "jail/wire.h"
#include "os/fd.h"

namespace tb::jail {

// Where the host has what; read from /proc/self/mountinfo.
struct CgroupHost {
  std::string unified;                      // the v2 tree's mount point, or empty
  std::map<std::string, std::string> v1;    // controller to mount point
  std::vector<std::string> v2_controllers;  // that the v2 tree offers

  bool has(const std::string& controller) const;
  bool on_v2(const std::string& controller) const;
};

CgroupHost find_cgroups();

class SandboxCgroup;

// Our part of every hierarchy: <mount>/threadbox/<tag>, one tag for each state directory.
class CgroupTree {
 public:
  // Makes it and switches the controllers on; what can't be had is left out, and `missing` says
  // what. Sandboxes of an earlier keeper that died are ended and removed: `leftover` counts them.
  CgroupTree(CgroupHost host, std::string tag);
  ~CgroupTree() { remove(); }
  CgroupTree(const CgroupTree&) = delete;
  CgroupTree& operator=(const CgroupTree&) = delete;

  const std::vector<std::string>& missing() const { return missing_; }
  unsigned leftover() const { return leftover_; }
  bool unified() const { return !unified_.empty(); }
  bool has(const std::string& controller) const { return dirs_.contains(controller); }
  // The counters for the guest: directories are its descriptors from kCounterFd on, in the order
  // of counter_controllers().
  std::vector<guest::Counter> counters() const;
  std::vector<std::string> counter_controllers() const;
  void remove();

 private:
  friend class SandboxCgroup;
  void open_hierarchy(const std::string& controller, const std::string& mount);
  void open_unified();
  void sweep(const std::string& dir);

  CgroupHost host_;
  std::string tag_;
  std::string unified_;                      // our directory in the v2 tree
  std::map<std::string, std::string> dirs_;  // controller to our directory that limits it
  std::vector<std::string> missing_;
  unsigned leftover_ = 0;
};

// One sandbox's directories in all hierarchies; removed with the object.
class SandboxCgroup {
 public:
  SandboxCgroup() = default;
  SandboxCgroup(const CgroupTree& tree, std::string name, const Limits& limits,
                std::uint32_t guest_uid);
  SandboxCgroup(SandboxCgroup&&) = default;
  SandboxCgroup& operator=(SandboxCgroup&&) = default;
  ~SandboxCgroup();

  // The v2 directory for clone3(CLONE_INTO_CGROUP), and for the guest to make commands' ones in.
  const os::Fd& unified() const { return unified_; }
  // In the child, before it gives anything up: enters the v1 hierarchies.
  void join_v1() const;
  std::string dir(const std::string& controller) const;  // empty: not limited here
  const std::string& unified_dir() const { return unified_dir_; }
  // Stops every process in it, or lets them go on. False: this host can't.
  bool freeze(bool on) const;
  // Ends every process in it, whatever it does. Not waited for.
  void kill() const;
  // False while a process is still there.
  bool remove();

 private:
  void make(const std::string& dir);

  std::vector<std::string> dirs_;     // distinct directories, all hierarchies
  std::vector<std::string> v1_dirs_;  // that the child has to enter by itself
  std::map<std::string, std::string> by_controller_;
  std::string unified_dir_;
  os::Fd unified_;
};

}  // namespace tb::jail
