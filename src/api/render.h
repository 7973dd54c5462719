// SPDX-License-Identifier: Apache-2.0
// Values of the lower rooms as JSON, one word for each thing in every dialect.
#pragma once

#include <boost/json.hpp>

#include "sandbox/sandbox.h"

namespace tb::api {

// cause, timed_out, signal, limits_hit, cpu and memory.
void render_exit(boost::json::object& to, const sandbox::Exit& exit);
boost::json::object render_process(const sandbox::Process& process);
// What it printed and how it ended, as /execute answers it. `timeout` is what it was given.
boost::json::object render_execution(const std::string& session, const sandbox::Process& process,
                                     Milliseconds timeout);

}  // namespace tb::api
