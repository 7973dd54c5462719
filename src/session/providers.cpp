// SPDX-License-Identifier: Apache-2.0
#include "session/providers.h"

#include "base/error.h"

namespace tb::session {

void Providers::add(std::string name, sandbox::Provider& provider, Takes takes, Problem problem) {
  if (default_.empty()) default_ = name;
  missing_.erase(name);
  entries_[std::move(name)] = {&provider, takes, std::move(problem)};
}

void Providers::add_missing(std::string name, std::string advice) {
  if (!entries_.contains(name)) missing_[std::move(name)] = std::move(advice);
}

void Providers::stand_in(std::string name, std::string instead) {
  instead_[std::move(name)] = std::move(instead);
}

void Providers::choose_default(const std::string& name) { default_ = resolve(name); }

std::string Providers::resolve(const std::string& name) const {
  if (name.empty()) return default_;
  if (entries_.contains(name)) return name;
  const auto other = instead_.find(name);
  if (other != instead_.end() && entries_.contains(other->second)) return other->second;
  if (const auto missing = missing_.find(name); missing != missing_.end()) {
    throw Error{Code::unavailable, "The provider " + name + " is not set up: " + missing->second};
  }
  std::string known;
  for (const std::string& one : names()) known += (known.empty() ? "" : ", ") + one;
  throw Error{Code::invalid, "Unknown provider: " + name + "; this server has " + known};
}

sandbox::Provider& Providers::get(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    throw Error{Code::unavailable, "The provider " + name + " is not set up here any more"};
  }
  const std::string problem = found->second.problem ? found->second.problem() : std::string{};
  if (problem.empty()) return *found->second.provider;
  throw Error{Code::unavailable, "The provider " + name + " can't be used: " + problem};
}

sandbox::Provider* Providers::find(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second.provider;
}

Providers::Takes Providers::takes(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? Takes::root : found->second.takes;
}

std::vector<std::string> Providers::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

}  // namespace tb::session
