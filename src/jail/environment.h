// SPDX-License-Identifier: Apache-2.0
// What a sandbox sees as its root: the host's programs with a made-up /etc, or an image.
#pragma once

#include <string>
#include <vector>

#include "os/fd.h"

namespace tb::jail {

constexpr const char* kSandboxUser = "sandboxuser";
constexpr unsigned kSandboxUid = 1000;
constexpr const char* kWorkspace = "/workspace";
// In every root: what parts of /proc are covered with.
constexpr const char* kEmptyDirectory = "var/empty";
constexpr const char* kUnreadableFile = "var/lib/unreadable";

// Read-only overlays, one for each part of the tree: a mount of its own for every sandbox, so that
// locks and watches on shared files do not cross from one to another.
class Environment {
 public:
  struct Part {
    std::string target;          // "" is the root
    std::vector<os::Fd> layers;  // uppermost first
    os::Fd mask;                 // one above them for confined sandboxes
  };

  // "host" or "image:<path>", where the path is a directory or a tar file. `dir` is a place of its
  // own for what has to be made up. Throws Error{invalid} for anything else.
  static Environment open(const std::string& name, const std::string& dir);

  const std::vector<Part>& parts() const { return parts_; }
  // The lowerdir option of a part, with `points` above the others if there is one; valid in this
  // process.
  static std::string lowerdir(const Part& part, bool confined, const os::Fd& points);

  // Where the programs come from: the host's root or the image.
  const os::Fd& image() const { return image_; }
  // Before the first confined sandbox: hides programs that lie among the libraries. Takes a while
  // when it is called first.
  void prepare_masks();

 private:
  void add_part(const std::string& target, const std::vector<std::string>& layers);

  std::string mask_dir_;
  os::Fd image_;
  bool masked_ = false;
  std::vector<Part> parts_;
};

}  // namespace tb::jail
