// SPDX-License-Identifier: Apache-2.0
#include "hooks/naming.h"

#include "base/hex.h"
#include "base/sha256.h"

namespace tb::hooks {

std::string name_after(std::string_view text) { return to_hex(sha256(text)).substr(0, 32); }

}  // namespace tb::hooks
