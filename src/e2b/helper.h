// SPDX-License-Identifier: Apache-2.0
// Small bash programs of ours that run in a sandbox and are waited for.
#pragma once

#include <string>
#include <vector>

#include "e2b/envd.h"

namespace tb::e2b {

struct Ran {
  int code = 0;
  std::string out;
  std::string errors;  // the beginning
};

// What bash -c is given, and its parameters from $1 on.
struct Helper {
  std::string script;
  std::vector<std::string> parameters = {};
  std::string user = {};  // empty: the template's own
  Bytes most = 16_MiB;    // of its output
  Milliseconds limit = 60s;
};

json::object to_request(const Helper& helper);

// Throws Error{unavailable} when it did not come to its end, {exhausted} when it printed more.
awaitable<Ran> run_helper(Envd& envd, Helper helper);

// Of an event of a process: bytes of a stream, decoded. Empty: it is none.
std::string bytes_of(const json::object& data, std::string_view stream);

}  // namespace tb::e2b
