// SPDX-License-Identifier: Apache-2.0
// Which program of this binary to be: reads the command line, then calls one function of cli/.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/commands.h"
#include "config.h"
#include "jail/keeper.h"

namespace {

std::string settings_help() {
  std::string text = "Settings (environment variables):\n";
  for (const tb::Setting& setting : tb::settings()) {
    char line[256];
    std::snprintf(line, sizeof line, "  %-24s %-20s %s\n", setting.name.c_str(),
                  setting.shown_default.c_str(), setting.meaning.c_str());
    text += line;
  }
  return text;
}

void add_bench_options(CLI::App& bench, tb::cli::BenchOptions& options) {
  bench.add_flag("--json", options.json, "as JSON");
  bench.add_option("--rounds", options.rounds, "of each latency row")->capture_default_str();
  bench.add_option("--sandboxes", options.sandboxes, "for the memory row")->capture_default_str();
  bench.add_option("--only", options.only, "rows whose name contains this");
  bench.add_option("--docker", options.docker,
                   "a Docker Engine's socket, to compare; else the usual one if it answers");
  bench.add_option("--image", options.image, "an image that this Docker has; else any");
}

struct KeeperArguments {
  tb::jail::KeeperOptions options;
  unsigned grace = 600;
  std::vector<std::string> environments;
};

CLI::App* add_keeper(CLI::App& app, KeeperArguments& arguments) {
  auto* keeper = app.add_subcommand("keeper", "internal: started by serve")->group("");
  keeper->add_option("--state-dir", arguments.options.state_dir)->required();
  keeper->add_option("--server-uid", arguments.options.server_uid);
  keeper->add_option("--ready-fd", arguments.options.ready_fd);
  keeper->add_option("--grace", arguments.grace);
  keeper->add_option("--environment", arguments.environments);
  keeper->add_flag("--detach", arguments.options.detach);
  return keeper;
}

int run_keeper(KeeperArguments& arguments) {
  tb::jail::KeeperOptions& options = arguments.options;
  options.grace = std::chrono::seconds{arguments.grace};
  auto& known = options.environments;
  known.insert(known.end(), arguments.environments.begin(), arguments.environments.end());
  options.allow_faults = std::getenv("THREADBOX_FAULTS") != nullptr;
  return tb::jail::run_keeper(options);
}

int dispatch(int argc, char** argv) {
  CLI::App app{"Threadbox: a persistent, isolated Linux box for every conversation of an agent."};
  app.require_subcommand(1);
  app.footer("Each command has --help. State lives under STATE_DIR.");

  auto* serve = app.add_subcommand("serve", "answer HTTP requests");
  serve->footer(settings_help());

  auto* coordinator = app.add_subcommand("coordinator", "pass requests on to workers");
  coordinator->footer(settings_help());

  auto* stop = app.add_subcommand("stop", "end server, keeper and all sandboxes of STATE_DIR");

  bool doctor_json = false;
  auto* doctor = app.add_subcommand("doctor", "show which barriers this host gives");
  doctor->add_flag("--json", doctor_json, "as JSON");

  tb::cli::RunOptions run_options;
  auto* run = app.add_subcommand("run", "run one command in a throw-away sandbox");
  run->add_option("command", run_options.command, "bash text")->required();
  run->add_option("--timeout", run_options.timeout, "seconds");

  tb::cli::BenchOptions bench_options;
  auto* bench = app.add_subcommand("bench", "measure this machine");
  add_bench_options(*bench, bench_options);

  auto* secret = app.add_subcommand("secret", "print the secret that callbacks are signed with");

  auto* version = app.add_subcommand("version", "print the version");

  KeeperArguments keeper_arguments;
  auto* keeper = add_keeper(app, keeper_arguments);

  CLI11_PARSE(app, argc, argv);

  if (*version) {
    std::printf("threadbox %s\n", TB_VERSION);
    return 0;
  }
  if (*keeper) return run_keeper(keeper_arguments);
  if (*coordinator) return tb::cli::coordinator(tb::read_config(tb::Role::coordinator));
  const tb::Config config = tb::read_config();
  if (*serve) return tb::cli::serve(config);
  if (*secret) return tb::cli::secret(config);
  if (*stop) return tb::cli::stop(config);
  if (*doctor) return tb::cli::doctor(config, doctor_json);
  if (*run) return tb::cli::run(config, run_options);
  if (*bench) return tb::cli::bench(config, bench_options);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return dispatch(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "threadbox: %s\n", error.what());
    return 1;
  }
}
