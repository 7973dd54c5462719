// SPDX-License-Identifier: Apache-2.0
// A tool and parameters that fit its schema, as a command.
#pragma once

#include <boost/json.hpp>

#include "registry/items.h"
#include "sandbox/sandbox.h"

namespace tb::registry {

// Values become words of argv, variables or stdin, never part of a text that a shell reads. A word
// or variable whose parameter is absent is left out; a list becomes several words. Throws
// Error{invalid} for a value that can't be a word.
sandbox::Command make_command(const Tool& tool, const boost::json::object& parameters);

}  // namespace tb::registry
