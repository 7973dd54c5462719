// SPDX-License-Identifier: Apache-2.0
// Keys and tokens that somebody wrote where they don't belong: a path or a query.
#pragma once

#include <string>
#include <string_view>

namespace tb::audit {

// The same target without what looks like a credential, by its form or by the name of its query
// parameter.
std::string without_credentials(std::string_view target);

}  // namespace tb::audit
