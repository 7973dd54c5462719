// SPDX-License-Identifier: Apache-2.0
#include <boost/json.hpp>
#include <cstdio>

#include "cli/commands.h"
#include "cli/engine.h"

namespace tb::cli {
namespace json = boost::json;
namespace {

constexpr const char* kStates[] = {"present", "degraded", "missing"};

// Advice about the host's own settings is no barrier of a sandbox: it does not change the verdict.
bool counts(const jail::Barrier& row) { return row.name != "host sysctls"; }

void print_table(const std::vector<jail::Barrier>& rows) {
  for (const jail::Barrier& row : rows) {
    std::printf("%-14s %-9s %s\n", row.name.c_str(), kStates[row.state], row.detail.c_str());
    if (!row.advice.empty()) std::printf("%-24s to do: %s\n", "", row.advice.c_str());
  }
}

void print_json(const std::vector<jail::Barrier>& rows) {
  json::array list;
  for (const jail::Barrier& row : rows) {
    list.push_back(json::object{{"name", row.name},
                                {"state", kStates[row.state]},
                                {"detail", row.detail},
                                {"advice", row.advice}});
  }
  std::printf("%s\n", json::serialize(list).c_str());
}

}  // namespace

namespace {

int ask(const Config& config, bool as_json) {
  // Asks a keeper, which has tried everything: what it says is what sandboxes really get.
  const bool started = prepare(config);
  drop_privileges(server_uid());
  return with_engine(config, [&](native::NativeProvider& provider) -> awaitable<int> {
    const jail::Welcome welcome = co_await provider.hello();
    if (as_json) {
      print_json(welcome.barriers);
    } else {
      print_table(welcome.barriers);
    }
    int worst = 0;
    for (const jail::Barrier& row : welcome.barriers) {
      if (counts(row)) worst = std::max<int>(worst, row.state);
    }
    if (started) co_await provider.keeper().stop();
    co_return worst;
  });
}

}  // namespace

int doctor(const Config& config, bool as_json) {
  try {
    return ask(config, as_json);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "threadbox: no sandbox can be made here: %s\n", error.what());
    return 3;
  }
}

}  // namespace tb::cli
