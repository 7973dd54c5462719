// SPDX-License-Identifier: Apache-2.0
// The programs in this binary: each takes its options and returns an exit code.
#pragma once

#include <string>
#include <vector>

#include "config.h"

namespace tb {
struct ShownSetting;
}

namespace tb::cli {

int serve(const Config& config);

// In front of the workers of a cluster: passes everything on to the one that it is meant for.
int coordinator(const Config& config);

// Asks the worker of these settings to send its sessions away, and waits until it has; `undo`: asks
// it to take sessions again.
int drain(const Config& config, bool undo);

// Prints the secret that callbacks are signed with; made now if there was none.
int secret(const Config& config);

struct KeyOptions {
  std::string tenant;
  std::string role = "user";
  std::string name;
  std::string expires;  // "30d"; empty: never
  std::string scopes;   // empty: all
  bool json = false;
};
// Makes an API key, and prints it, this once.
int create_key(const Config& config, const KeyOptions& options);
int list_keys(const Config& config, bool json);
// `id` may be the key itself.
int revoke_key(const Config& config, const std::string& id);

// Ends server, keeper and every sandbox of the state directory; files of sessions stay.
int stop(const Config& config);

// A table of every barrier; 0: all present, 1: something degraded, 2: something missing,
// 3: sandboxes are not possible at all.
int doctor(const Config& config, bool json);

struct RunOptions {
  std::string command;
  double timeout = 0;  // seconds; 0: the default
};
// One command in a sandbox of its own; passes its output and its exit code on.
int run(const Config& config, const RunOptions& options);

struct BenchOptions {
  bool json = false;
  bool samples = false;  // each of them, in JSON
  unsigned rounds = 300;
  unsigned sandboxes = 500;
  std::string only;    // rows whose name contains this
  std::string docker;  // the Docker Engine's socket
  std::string image;   // an image that it has
};
int bench(const Config& config, const BenchOptions& options);

// The keeper of the state directory, in the foreground, for a supervisor that has a service for it.
int keeper(const Config& config);

// Prints every setting with what it is and where that was said.
int show_config(const std::vector<ShownSetting>& rows, bool json);

}  // namespace tb::cli
