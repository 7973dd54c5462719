// SPDX-License-Identifier: Apache-2.0
// A file helper of a sandbox of this machine: it passes descriptors, and we read and write them.
#pragma once

#include <functional>
#include <memory>

#include "base/async.h"
#include "box/files.h"
#include "os/fd.h"

namespace tb::native {

// Hands a socket to PID 1, which starts a helper that answers on it; false: it is gone.
using PassSocket = std::function<bool(os::Fd socket)>;

std::unique_ptr<box::HelperLink> connect_helper(asio::any_io_executor executor,
                                                asio::thread_pool& disk, const PassSocket& pass);

}  // namespace tb::native
