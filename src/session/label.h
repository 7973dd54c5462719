// SPDX-License-Identifier: Apache-2.0
// A session as the words that the keeper keeps with its sandbox, and as the store keeps it.
#pragma once

#include <optional>
#include <string>

#include "session/session.h"

namespace tb::session {

StoredSession to_stored(const Session& session);
std::string to_label(const StoredSession& session);
// Empty when the words are not ours. Its last activity is now.
std::optional<StoredSession> from_label(const std::string& label);

}  // namespace tb::session
