// SPDX-License-Identifier: Apache-2.0
// The tables, and the way from each earlier version of them to today's. See docs/formats/store.md.
#pragma once

#include <span>

#include "store/sqlite.h"

namespace tb::store {

// Step n leads from version n to n + 1. A step that was released is never changed.
std::span<const char* const> migrations();

// Brings the tables to the version of the last step; each step is there whole or not at all.
// Throws Error{invalid} when the database is newer than that.
void migrate(Connection& connection, std::span<const char* const> steps);

}  // namespace tb::store
