// SPDX-License-Identifier: Apache-2.0
// A command as bodies describe it.
#pragma once

#include <boost/json.hpp>

#include "sandbox/sandbox.h"

namespace tb::api {

// `command` (bash text) with `cwd`, `env`, `stdin`, `timeout`, `tag` and `notify_url`,
// which check_notify_url (service.h) has still to look at. Throws HttpError 400.
sandbox::Command read_command(const boost::json::object& body);

// The same for a process that is started and left to itself: `argv` instead of `command`,
// `stdin_open`, `pty` (true, or rows and cols), `idempotency_key`.
sandbox::Command read_process(const boost::json::object& body);

}  // namespace tb::api
