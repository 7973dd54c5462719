// SPDX-License-Identifier: Apache-2.0
// A session as the words that the keeper keeps with its sandbox, so that the next server knows it.
#pragma once

#include <optional>
#include <string>

#include "session/sessions.h"

namespace tb::session {

std::string to_label(const Session& session);
// Empty when the words are not ours.
std::optional<Session> from_label(const std::string& label);

}  // namespace tb::session
