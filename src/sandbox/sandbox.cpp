// SPDX-License-Identifier: Apache-2.0
#include "sandbox/sandbox.h"

namespace tb::sandbox {

awaitable<bool> Provider::rest(std::string) { co_return false; }

std::string_view name_of(Cause cause) {
  switch (cause) {
    case Cause::exited: return "exited";
    case Cause::signal: return "signal";
    case Cause::timeout: return "timeout";
    case Cause::oom: return "oom";
    case Cause::killed: return "killed";
    case Cause::policy: return "policy";
    case Cause::lost: return "lost";
  }
  return "lost";
}

}  // namespace tb::sandbox
