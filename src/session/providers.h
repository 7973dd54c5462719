// SPDX-License-Identifier: Apache-2.0
// Who can make sandboxes here, by the names that clients know. Filled at the start.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sandbox/sandbox.h"

namespace tb::session {

inline constexpr const char* kNative = "native";

class Providers {
 public:
  // What an environment says that is meant for this one.
  enum class Takes { root, image, sandbox_template };
  // Why it can't be used right now, for people; empty: it can.
  using Problem = std::function<std::string()>;

  // The first one is the default, unless choose_default() says otherwise. `provider` outlives this.
  void add(std::string name, sandbox::Provider& provider, Takes takes = Takes::root,
           Problem problem = {});
  // A name that is known, but nothing was set up for it; `advice` says how to.
  void add_missing(std::string name, std::string advice);
  // Who asks for `name` gets `instead`, unless `name` itself was added.
  void stand_in(std::string name, std::string instead);
  // Throws Error{invalid} for one that was not added.
  void choose_default(const std::string& name);

  // The name of the one that answers to `name`; to an empty one the default. Throws Error{invalid}
  // with the known ones, or {unavailable} with what to do.
  std::string resolve(const std::string& name) const;
  // By a name that resolve() gave. Throws Error{unavailable} with the cause.
  sandbox::Provider& get(const std::string& name) const;
  // The same without asking how it is; null: there is none.
  sandbox::Provider* find(const std::string& name) const;
  Takes takes(const std::string& name) const;

  std::vector<std::string> names() const;
  const std::string& default_name() const { return default_; }

 private:
  struct Entry {
    sandbox::Provider* provider;
    Takes takes;
    Problem problem;
  };
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> missing_;  // with the advice
  std::map<std::string, std::string> instead_;
  std::string default_;
};

}  // namespace tb::session
