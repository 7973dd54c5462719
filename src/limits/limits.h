// SPDX-License-Identifier: Apache-2.0
// What the rest of the program asks about who may have how much.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace tb::limits {

// Whom something is counted for. Everybody has a tenant, the default one if need be; a key or a
// user that is empty is none.
struct Identity {
  std::string tenant = {};
  std::string key = {};
  std::string user = {};
};

enum class Scope { key, tenant, user };
enum class Flow { requests, creations, bytes };
enum class Stock { sessions, processes };

std::string_view name_of(Scope scope);
std::string_view name_of(Flow flow);
std::string_view name_of(Stock stock);

// How things stand with the scope that is the nearest to its limit.
struct Standing {
  std::uint64_t limit = 0;  // 0: nothing is limited
  std::uint64_t remaining = 0;
  std::chrono::seconds window{0};  // 0: it is a count, not a rate
  std::chrono::seconds reset{0};   // until all of it is there again
  std::chrono::seconds retry{0};   // until as much is there as was asked for
};

// More than is allowed was asked for.
class Exceeded : public Error {
 public:
  Exceeded(const std::string& text, std::string_view what, Standing standing)
      : Error(Code::exhausted, text), what_(what), standing_(standing) {}
  std::string_view quota() const { return what_; }  // the name of a Flow or of a Stock
  const Standing& standing() const { return standing_; }

 private:
  std::string_view what_;
  Standing standing_;
};

// What the rest of the program asks. One thread. Its answers are known at once: one that shares
// with other servers settles with them in the background.
class Limits {
 public:
  virtual ~Limits() = default;

  // False: there are no limits at all, and nothing else needs to be asked.
  virtual bool active() const = 0;
  // Takes so much from all scopes, or throws Exceeded and takes nothing.
  virtual Standing take(const Identity& who, Flow flow, std::uint64_t amount = 1) = 0;
  // Throws Exceeded if nothing is left; takes nothing.
  virtual void check(const Identity& who, Flow flow) = 0;
  // What has happened already: it may leave a debt.
  virtual void charge(const Identity& who, Flow flow, std::uint64_t amount) = 0;
  // One more is held, until release(); or throws Exceeded.
  virtual void hold(const Identity& who, Stock stock) = 0;
  // The same of what is there already, whatever the limits say.
  virtual void count(const Identity& who, Stock stock) = 0;
  virtual void release(const Identity& who, Stock stock) = 0;
};

}  // namespace tb::limits
