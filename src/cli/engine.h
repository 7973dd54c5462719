// SPDX-License-Identifier: Apache-2.0
// The engine without HTTP: a keeper, the native provider, and a loop to run them on. What the
// command-line tools and the server share.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>

#include "base/async.h"
#include "config.h"
#include "hooks/signing.h"
#include "native/provider.h"
#include "os/fd.h"

namespace tb::cli {

// The uid under which the server runs once it needs no privilege: the user `threadbox` if there is
// one. Our own without root.
unsigned server_uid();

// Makes the state directory, with what the server owns in it.
void prepare_state(const Config& config);

// The same, and starts its keeper if none runs, for the environment of the settings and for
// `roots`, with mounts of `directories`. True: it was started now.
bool prepare(const Config& config, std::vector<std::string> roots = {},
             std::vector<std::string> directories = {});

// Held as long as a server runs: two would take each other's sandboxes over. Throws
// Error{conflict}.
os::Fd lock_state(const std::string& state_dir);

// Where API keys are.
std::string keys_path(const Config& config);

// Where artifacts and logs of sessions are.
std::string storage_path(const Config& config);

// Where the files of the audit log are; empty: there is none.
std::string audit_path(const Config& config);

// What callbacks are signed with, of the settings or of a file in the state directory, which is
// made when it is missing. Needs the rights of whoever made it: before drop_privileges.
hooks::Secret load_secret(const Config& config);

// From here on no root, no capabilities, no way back. Nothing to do without root. `groups` are kept
// beside the user's own.
void drop_privileges(unsigned uid, const std::vector<unsigned>& groups = {});

// Who may use the Docker Engine's socket, when there are to be containers; else nobody.
std::vector<unsigned> groups_for(const Config& config);

// Turns the loop until the task has ended, whatever else is on it; passes on what it throws.
int run_loop(asio::io_context& loop, const std::function<awaitable<int>()>& task);

// Runs `work` with a provider on a loop of its own; passes on what it throws.
int with_engine(const Config& config,
                const std::function<awaitable<int>(native::NativeProvider&)>& work);

}  // namespace tb::cli
