// SPDX-License-Identifier: Apache-2.0
// Who has had how much: token buckets for what happens, counts for what is held.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "limits/allowance.h"

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

class Limiter final : public Limits {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;
  // What somebody has in place of the settings' allowance of its scope; empty: that one.
  using Special = std::function<std::optional<Allowance>(Scope scope, const std::string& name)>;
  // Told of each refusal.
  using OnExceeded = std::function<void(const Identity& who, Scope scope, std::string_view what)>;
  struct Settings {
    Allowance key = {};
    Allowance tenant = {};
    Allowance user = {};
    std::size_t names = 100'000;  // that are counted apart; those beyond share what they have
  };

  explicit Limiter(Settings settings, Now now = Clock::now);
  void set_special(Special special) { special_ = std::move(special); }
  void on_exceeded(OnExceeded callback) { on_exceeded_ = std::move(callback); }

  bool active() const override { return active_ || special_ != nullptr; }
  Standing take(const Identity& who, Flow flow, std::uint64_t amount = 1) override;
  void check(const Identity& who, Flow flow) override;
  void charge(const Identity& who, Flow flow, std::uint64_t amount) override;
  void hold(const Identity& who, Stock stock) override;
  void count(const Identity& who, Stock stock) override;
  void release(const Identity& who, Stock stock) override;

  // Names that are remembered at the moment.
  std::size_t size() const { return accounts_.size(); }

 private:
  // Full at first; fills up while time goes by.
  struct Bucket {
    double level = 0;
    Clock::time_point at{};    // when it had that
    Clock::time_point full{};  // and when it has all again
    bool used = false;
  };
  using Account = std::array<Bucket, 3>;      // by Flow
  using Held = std::array<std::uint64_t, 2>;  // by Stock
  struct Entry {
    Scope scope;
    std::string name;
    Allowance allowance;
  };

  std::vector<Entry> entries(const Identity& who) const;
  Bucket& bucket(const Entry& entry, Flow flow);
  void forget_full();
  void fill(Bucket& bucket, const Rate& rate) const;
  Standing stand(Bucket& bucket, const Rate& rate, double wanted) const;
  [[noreturn]] void refuse(const Identity& who, const Entry& entry, std::string_view what,
                           const Standing& standing) const;

  Settings settings_;
  Now now_;
  bool active_;
  Special special_;
  OnExceeded on_exceeded_;
  std::unordered_map<std::string, Account> accounts_;
  std::unordered_map<std::string, Held> held_;  // of those who hold anything
  Clock::time_point forgotten_{};               // when room was made last
};

}  // namespace tb::limits
