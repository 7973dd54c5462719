// SPDX-License-Identifier: Apache-2.0
// What is mounted into a sandbox beside its own files, and who keeps volumes.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <vector>

#include "base/units.h"

namespace tb::sandbox {

using boost::asio::awaitable;

struct Mount {
  std::string source;  // a volume's id, or a directory of the host
  std::string target;  // an absolute path in the sandbox
  bool read_only = true;
  bool host_directory = false;
  std::string name = {};  // of the volume, as its owner calls it
  bool operator==(const Mount&) const = default;
};

// A volume as its host knows it.
struct VolumeInfo {
  std::string id;
  Bytes limit;
  bool limited = false;            // the kernel holds it to that
  std::string label;               // what it was made with
  std::vector<std::string> users;  // sandboxes that have it, or will when they come back
};

// A provider's volumes: they belong to no sandbox, and outlive all.
class VolumeHost {
 public:
  virtual ~VolumeHost() = default;
  virtual awaitable<void> make_volume(std::string id, Bytes limit, std::string label) = 0;
  // Those whose label begins so.
  virtual awaitable<std::vector<VolumeInfo>> list_volumes(std::string label_begins) = 0;
  // Throws Error{conflict} while somebody has it, {not_found} when there is none.
  virtual awaitable<void> remove_volume(std::string id) = 0;
};

}  // namespace tb::sandbox
