// SPDX-License-Identifier: Apache-2.0
// The ways to follow a process's output, each from its start to its end.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "cli/bench_http.h"

namespace tb::cli {

using TakeBytes = std::function<void(std::string_view bytes)>;

// Start a process (`start` is the JSON of a POST of processes) and hand over what comes, as it
// comes: exact bytes through a WebSocket and in pages, the text of the events or of the lines
// otherwise. Return when the process's end was told; throw Error when it failed.
void follow_websocket(BenchClient& client, const std::string& session, const std::string& start,
                      const TakeBytes& take);
void follow_events(BenchClient& client, const std::string& session, const std::string& start,
                   const TakeBytes& take);
// By /execute with `stream`.
void follow_lines(BenchClient& client, const std::string& session, const std::string& start,
                  const TakeBytes& take);
// One request after the other, whether something new is there or not.
void follow_pages(BenchClient& client, const std::string& session, const std::string& start,
                  const TakeBytes& take);

}  // namespace tb::cli
