// SPDX-License-Identifier: Apache-2.0
// Files that a driver says its code wrote. The code may have said it in its place.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

namespace tb::code {

// Of the end of a call: paths below the workspace, without it; what else is there is left out.
std::vector<std::string> written_files(const boost::json::object& end);

}  // namespace tb::code
