// SPDX-License-Identifier: Apache-2.0
// What a container of ours looks like to the engine: every barrier that it can set.
#pragma once

#include <boost/json/object.hpp>
#include <string>

#include "sandbox/sandbox.h"

namespace tb::docker {

namespace json = boost::json;

// Labels of all that is ours: which server's, and which session's.
constexpr const char* kTagLabel = "threadbox.server";
constexpr const char* kIdLabel = "threadbox.session";

constexpr unsigned kTenantUid = 1000;  // sandboxuser
constexpr const char* kWorkspace = "/workspace";

struct ContainerSpec {
  std::string id;
  std::string image;
  std::string network;
  std::string runtime;
  std::string workspace_volume;
  std::string guest_volume;
  std::string door_dir;  // of this machine; empty: the engine does not see it
  sandbox::Limits limits;
  json::object labels;
};

// The body of POST /containers/create.
json::object describe_container(const ContainerSpec& spec);
// Of one that is never started, so that files can be put into a volume.
json::object describe_filler(const std::string& image, const std::string& volume,
                             const char* target, const std::string& door_dir);

// Another one for each guest program: containers of before keep theirs.
std::string guest_volume_name();
std::string guest_tar();
std::uint64_t guest_size();
// For the root of a filler: makes the workspace the tenant's, whatever the image has there.
std::string workspace_tar();

}  // namespace tb::docker
