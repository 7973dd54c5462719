// SPDX-License-Identifier: Apache-2.0
// Which program of this binary to be: reads the command line, then calls one function of cli/.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "cli/commands.h"
#include "config_sources.h"
#include "jail/keeper.h"

namespace {

std::string settings_help() {
  std::string text =
      "Settings: lines of a file (--config, or THREADBOX_CONFIG), environment variables, or flags "
      "(--pool-size 5), which count in this order:\n";
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
  bench.add_flag("--samples", options.samples, "as JSON, with each sample");
  bench.add_option("--rounds", options.rounds, "of each latency row")->capture_default_str();
  bench.add_option("--sandboxes", options.sandboxes, "for the memory row")->capture_default_str();
  bench.add_option("--only", options.only, "rows whose name contains this");
  bench.add_option("--docker", options.docker,
                   "a Docker Engine's socket, to compare; else the usual one if it answers");
  bench.add_option("--image", options.image, "an image that this Docker has; else any");
}

// What the command line says about settings, beside the environment.
struct Sources {
  std::string file;
  std::map<std::string, std::string> flags;
};

// Each setting is a flag too; the table of `serve --help` is long enough without them.
void add_settings(CLI::App& command, Sources& sources) {
  command.add_option("--config", sources.file, "a file with settings, NAME=VALUE in each line");
  for (const tb::Setting& setting : tb::settings()) {
    const std::string flag = tb::flag_of(setting);
    if (flag.empty()) continue;
    command.add_option("--" + flag, sources.flags[setting.name], setting.meaning)->group("");
  }
}

struct KeeperFlags {
  tb::jail::KeeperOptions options;
  unsigned grace = 600;
  std::vector<std::string> environments;
};

// With --state-dir it is started by serve, which passes the rest; without it by a supervisor, and
// reads the settings itself.
CLI::App* add_keeper(CLI::App& app, KeeperFlags& flags, Sources& sources) {
  auto* keeper = app.add_subcommand("keeper", "hold the sandboxes; serve starts one if none runs");
  keeper->add_option("--state-dir", flags.options.state_dir)->group("");
  keeper->add_option("--server-uid", flags.options.server_uid)->group("");
  keeper->add_option("--ready-fd", flags.options.ready_fd)->group("");
  keeper->add_option("--grace", flags.grace)->group("");
  keeper->add_option("--environment", flags.environments)->group("");
  keeper->add_option("--directory", flags.options.directories)->group("");
  keeper->add_flag("--detach", flags.options.detach)->group("");
  keeper->add_option("--config", sources.file, "a file with settings, NAME=VALUE in each line");
  return keeper;
}

int run_keeper(KeeperFlags& flags) {
  flags.options.grace = std::chrono::seconds{flags.grace};
  auto& known = flags.options.environments;
  known.insert(known.end(), flags.environments.begin(), flags.environments.end());
  flags.options.allow_faults = std::getenv("THREADBOX_FAULTS") != nullptr;
  return tb::jail::run_keeper(flags.options);
}

CLI::App* add_drain(CLI::App& app, bool& undo) {
  auto* drain = app.add_subcommand("drain", "send all sessions of this worker to others");
  drain->add_flag("--undo", undo, "let it take sessions again");
  return drain;
}

CLI::App* add_run(CLI::App& app, tb::cli::RunOptions& options) {
  auto* run = app.add_subcommand("run", "run one command in a throw-away sandbox");
  run->add_option("command", options.command, "bash text")->required();
  run->add_option("--timeout", options.timeout, "seconds");
  return run;
}

struct KeyFlags {
  CLI::App* create = nullptr;
  CLI::App* list = nullptr;
  CLI::App* revoke = nullptr;
  tb::cli::KeyOptions options;
  std::string id;
};

CLI::App* add_keys(CLI::App& app, KeyFlags& flags) {
  auto* keys = app.add_subcommand("keys", "make, list and revoke API keys; a server need not run");
  keys->require_subcommand(1);
  tb::cli::KeyOptions& options = flags.options;
  flags.create = keys->add_subcommand("create", "make a key, and print it this once");
  flags.create->add_option("--tenant", options.tenant, "whose it is; without: the default tenant");
  flags.create->add_option("--role", options.role, "admin, user or readonly")
      ->capture_default_str();
  flags.create->add_option("--name", options.name, "for people");
  flags.create->add_option("--expires", options.expires,
                           "after 30d, 12h, 45m, 90s; without: never");
  flags.create->add_option("--scope", options.scopes,
                           "only these, with commas: sessions, volumes, artifacts, webhooks, "
                           "registry, metrics, admin");
  flags.create->add_flag("--json", options.json, "as JSON");
  flags.list = keys->add_subcommand("list", "show all keys, but not their secrets");
  flags.list->add_flag("--json", options.json, "as JSON");
  flags.revoke = keys->add_subcommand("revoke", "let a key open nothing from now on");
  flags.revoke->add_option("id", flags.id, "of the key, or the key itself")->required();
  return keys;
}

int run_keys(const tb::Config& config, const KeyFlags& flags) {
  if (*flags.create) return tb::cli::create_key(config, flags.options);
  if (*flags.list) return tb::cli::list_keys(config, flags.options.json);
  return tb::cli::revoke_key(config, flags.id);
}

int dispatch(int argc, char** argv) {
  CLI::App app{"Threadbox: a persistent, isolated Linux box for every conversation of an agent."};
  app.name("threadbox");
  app.require_subcommand(1);
  app.footer("Each command has --help. State lives under STATE_DIR.");

  auto* serve = app.add_subcommand("serve", "answer HTTP requests");
  auto* coordinator = app.add_subcommand("coordinator", "pass requests on to workers");
  for (CLI::App* each : {serve, coordinator}) each->footer(settings_help());
  bool undo = false;
  auto* drain = add_drain(app, undo);
  auto* stop = app.add_subcommand("stop", "end server, keeper and all sandboxes of STATE_DIR");

  bool json = false;
  auto* doctor = app.add_subcommand("doctor", "show which barriers this host gives");
  doctor->add_flag("--json", json, "as JSON");
  tb::cli::RunOptions run_options;
  auto* run = add_run(app, run_options);
  tb::cli::BenchOptions bench_options;
  auto* bench = app.add_subcommand("bench", "measure this machine");
  add_bench_options(*bench, bench_options);

  auto* secret = app.add_subcommand("secret", "print the secret that callbacks are signed with");

  auto* show = app.add_subcommand("config", "print every setting and where it was set");
  show->add_flag("--json", json, "as JSON");
  KeyFlags key_flags;
  auto* keys = add_keys(app, key_flags);
  Sources sources;
  for (CLI::App* each : {serve, coordinator, drain, stop, doctor, run, bench, secret, show,
                         key_flags.create, key_flags.list, key_flags.revoke}) {
    add_settings(*each, sources);
  }
  KeeperFlags keeper_flags;
  auto* keeper = add_keeper(app, keeper_flags, sources);
  auto* version = app.add_subcommand("version", "print the version");

  CLI11_PARSE(app, argc, argv);

  if (*version) {
    std::printf("threadbox %s\n", TB_VERSION);
    return 0;
  }
  if (*keeper && !keeper_flags.options.state_dir.empty()) return run_keeper(keeper_flags);
  const tb::GivenSettings given = tb::gather_settings(sources.file, sources.flags);
  const tb::Role role = *coordinator ? tb::Role::coordinator : tb::Role::worker;
  const tb::Config config = tb::read_config(given, role);
  if (*coordinator) return tb::cli::coordinator(config);
  if (*serve) return tb::cli::serve(config);
  if (*keeper) return tb::cli::keeper(config);
  if (*show) return tb::cli::show_config(tb::show_settings(config, given), json);
  if (*secret) return tb::cli::secret(config);
  if (*drain) return tb::cli::drain(config, undo);
  if (*keys) return run_keys(config, key_flags);
  if (*stop) return tb::cli::stop(config);
  if (*doctor) return tb::cli::doctor(config, json);
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
