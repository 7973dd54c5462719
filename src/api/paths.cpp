// SPDX-License-Identifier: Apache-2.0
#include "api/paths.h"

#include "api/errors.h"
#include "base/utf8.h"
#include "sandbox/paths.h"

namespace tb::api {

std::string workspace_path(std::string_view name) {
  if (auto path = sandbox::find_workspace_path(name)) return std::move(*path);
  throw Refusal{400, "Invalid filename", {{"filename", to_utf8(std::string{name.substr(0, 200)})}}};
}

}  // namespace tb::api
