// SPDX-License-Identifier: Apache-2.0
// What names of the registry mean for a session: where its sandbox comes from, and how it is made.
#include "base/error.h"
#include "base/log.h"
#include "base/mount_target.h"
#include "session/sessions.h"

namespace tb::session {
namespace {

Error unknown(const char* what, const std::string& name, const registry::Registry& registry,
              const char* kind) {
  return Error{Code::invalid, std::string{"Unknown "} + what + ": " + name + "; this server has " +
                                  registry::join_names(*registry.names(kind))};
}

sandbox::Limits limits_of(sandbox::Limits limits, const registry::Resources& resources) {
  limits.memory = resources.memory.value_or(limits.memory);
  limits.disk = resources.disk.value_or(limits.disk);
  limits.cpu_quota = resources.cpu_quota.value_or(limits.cpu_quota);
  limits.pids = resources.pids.value_or(limits.pids);
  return limits;
}

}  // namespace

const registry::Environment* Sessions::find_environment(const SessionSpec& spec) const {
  return spec.environment.empty() ? nullptr : registry_.find_environment(spec.environment);
}

// What the request leaves open is the agent's to say, then the environment's, then the server's.
void Sessions::complete(SessionSpec& spec) const {
  if (!spec.agent.empty()) {
    const registry::Agent* agent = registry_.find_agent(spec.agent);
    if (!agent) throw unknown("agent", spec.agent, registry_, "agents");
    if (spec.environment.empty()) spec.environment = agent->environment;
    if (spec.provider.empty()) spec.provider = agent->provider;
  }
  const registry::Environment* environment = find_environment(spec);
  if (environment && spec.provider.empty()) spec.provider = environment->provider;
  spec.provider = providers_.resolve(spec.provider);
  const bool takes_names = providers_.takes(spec.provider) != Providers::Takes::root;
  if (!spec.environment.empty() && !environment && !takes_names) {
    throw unknown("environment", spec.environment, registry_, "environments");
  }
  if (environment && spec.policy.empty()) spec.policy = environment->policy;
  if (spec.policy.empty()) spec.policy = default_policy_;
  if (spec.idle.count() == 0) {
    spec.idle = environment ? environment->resources.idle.value_or(idle_) : idle_;
  }
  policy_named(spec.policy);
}

// A volume that an environment names is the user's own, made when it is used first; directories of
// the host are the operator's, who wrote them there.
awaitable<void> Sessions::mount(SessionSpec& spec) {
  const registry::Environment* environment = find_environment(spec);
  std::vector<storage::VolumeUse> uses = std::move(spec.volumes);
  std::vector<sandbox::Mount> directories;
  if (environment) {
    for (const registry::Mount& mount : environment->mounts) {
      if (mount.source.starts_with('/')) {
        directories.push_back({mount.source, mount.target, mount.read_only, true});
      } else {
        uses.push_back({mount.source, mount.target, mount.read_only, true});
      }
    }
  }
  if (uses.empty() && directories.empty()) co_return;
  if (!volumes_ || !providers_.get(spec.provider).volumes()) {
    throw Error{Code::invalid, "The provider " + spec.provider +
                                   " can't mount volumes: use native, or a session without"};
  }
  storage::Owner owner{spec.tenant, spec.user};
  spec.mounts = co_await volumes_->resolve(std::move(owner), std::move(uses));
  for (sandbox::Mount& mount : directories) {
    for (const sandbox::Mount& other : spec.mounts) {
      if (!targets_touch(mount.target, other.target)) continue;
      throw Error{Code::invalid, "The environment " + spec.environment + " mounts something at " +
                                     mount.target + " already: choose another path"};
    }
    spec.mounts.push_back(std::move(mount));
  }
}

Kind Sessions::kind_of(const registry::Environment* environment, const std::string& name,
                       const std::string& provider, const policy::Policy& policy) const {
  const Kind& usual = pool_.settings().kind;
  Kind kind = usual;
  kind.provider = provider;
  kind.programs = Programs{policy};
  const Providers::Takes takes = providers_.takes(provider);
  if (provider != usual.provider) kind.environment = takes == Providers::Takes::root ? "host" : "";
  if (!environment) {
    // A name that only the provider knows.
    if (!name.empty() && takes != Providers::Takes::root) kind.environment = name;
    return kind;
  }
  kind.limits = limits_of(usual.limits, environment->resources);
  kind.network = environment->network == registry::Network::internet;
  if (!environment->warm.empty()) kind.warm = environment->warm;
  std::string inside = environment->root;
  if (takes == Providers::Takes::image) inside = environment->image;
  if (takes == Providers::Takes::sandbox_template) inside = environment->sandbox_template;
  if (!inside.empty()) kind.environment = inside;
  return kind;
}

// With today's registry, also for a session of an earlier one.
void Sessions::settle(Session& session) const {
  const registry::Environment* environment = find_environment(session.spec);
  if (!environment && !session.spec.environment.empty() &&
      providers_.takes(session.spec.provider) == Providers::Takes::root) {
    log(LogLevel::warning, "environment_unknown",
        {{"session", session.id.substr(0, 12)}, {"environment", session.spec.environment}});
  }
  session.kind =
      kind_of(environment, session.spec.environment, session.spec.provider, session.policy);
  session.kind.mounts = session.spec.mounts;
  session.surroundings = {};
  if (!environment) return;
  session.surroundings.variables = environment->variables;
  session.surroundings.command_timeout = environment->resources.command_timeout;
  session.surroundings.disk = environment->resources.disk;
  session.surroundings.network = session.kind.network;
}

void Sessions::restock() {
  std::vector<Stock> stocks;
  for (const registry::Environment* environment : registry_.environments()) {
    // What has mounts is made for its user.
    if (environment->warm_pool == 0 || !environment->mounts.empty()) continue;
    try {
      SessionSpec spec;
      spec.environment = environment->name;
      complete(spec);
      const policy::Policy& policy = policy_named(spec.policy);
      Kind kind = kind_of(environment, environment->name, spec.provider, policy);
      stocks.push_back({std::move(kind), environment->warm_pool});
    } catch (const Error& error) {
      log(LogLevel::warning, "warm_pool_left_out",
          {{"environment", environment->name}, {"error", error.what()}});
    }
  }
  pool_.keep(std::move(stocks));
}

}  // namespace tb::session
