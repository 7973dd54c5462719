// SPDX-License-Identifier: Apache-2.0
#include "os/mount.h"

#include <fcntl.h>
#include <sys/mount.h>

#include "os/fault.h"

namespace tb::os {

Fd make_mount(const std::string& type, const MountOptions& options, unsigned attributes) {
  Fd context{attempt("fsopen " + type, [&] { return ::fsopen(type.c_str(), FSOPEN_CLOEXEC); })};
  for (const auto& [key, value] : options) {
    const auto command = value.empty() ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING;
    const char* text = value.empty() ? nullptr : value.c_str();
    attempt("set " + key + " of " + type,
            [&] { return ::fsconfig(context.get(), command, key.c_str(), text, 0); });
  }
  attempt("create " + type,
          [&] { return ::fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0); });
  return Fd{attempt("fsmount " + type,
                    [&] { return ::fsmount(context.get(), FSMOUNT_CLOEXEC, attributes); })};
}

Fd clone_mount(int dir, const std::string& path, unsigned attributes) {
  Fd mount{attempt("open_tree " + path, [&] {
    return ::open_tree(dir, path.c_str(),
                       OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW |
                           (path.empty() ? AT_EMPTY_PATH : 0));
  })};
  if (attributes != 0) {
    mount_attr attr{};
    attr.attr_set = attributes;
    attempt("mount_setattr " + path,
            [&] { return ::mount_setattr(mount.get(), "", AT_EMPTY_PATH, &attr, sizeof attr); });
  }
  return mount;
}

void attach_mount(const Fd& mount, int dir, const std::string& path) {
  attempt("move_mount " + path, [&] {
    return ::move_mount(mount.get(), "", dir, path.c_str(), MOVE_MOUNT_F_EMPTY_PATH);
  });
}

}  // namespace tb::os
