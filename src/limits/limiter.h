// SPDX-License-Identifier: Apache-2.0
// Who has had how much: token buckets for what happens, counts for what is held. Servers that share
// their limits tell each other what they took and hold (cluster/shared_limits.h).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "limits/allowance.h"
#include "limits/limits.h"

namespace tb::limits {

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

  // ---- for who shares them with other servers: sharing.cpp ----
  using Held = std::array<std::uint64_t, 2>;  // by Stock
  // Something of a bucket, taken here since others were last told.
  struct Taken {
    std::string name;
    Flow flow = Flow::requests;
    Rate rate = {};
    double amount = 0;
    Clock::duration ago{0};  // when the first of it was taken
  };
  // From now on it is written down what others are to be told. `used` is called when there is the
  // first of it. What others hold is believed for `patience` after it was heard.
  void share(std::function<void()> used, Clock::duration patience);
  // These count as told: of those beyond `most` one hears the next time.
  std::vector<Taken> take_told(std::size_t most);
  // So much is left of it for everybody, by what all had taken until take_told().
  void settle(const Taken& told, double left);
  // What is held here under the names with a limit whose counts have changed, or were asked for,
  // since they were last told. These count as told.
  struct Count {
    std::string name;
    Held held = {};
  };
  std::vector<Count> counts_told(std::size_t most);
  // All that is held is to be told again.
  void tell_counts_again();
  void set_elsewhere(const std::string& name, const Held& held);

  // Names that are remembered at the moment.
  std::size_t size() const { return accounts_.size(); }

 private:
  // Full at first; fills up while time goes by.
  struct Bucket {
    double level = 0;
    Clock::time_point at{};    // when it had that
    Clock::time_point full{};  // and when it has all again
    bool used = false;
    double untold = 0;          // of what was taken
    Clock::time_point since{};  // when the first of that was
  };
  using Account = std::array<Bucket, 3>;  // by Flow
  struct Elsewhere {
    Held held = {};
    Clock::time_point heard{};
  };
  struct Entry {
    Scope scope;
    std::string name;
    Allowance allowance;
  };

  void note_taken(const std::string& name, Flow flow, const Rate& rate, double amount);
  void note_counted(const std::string& name, const Entry& entry, Stock stock);
  std::uint64_t held_elsewhere(const std::string& name, Stock stock) const;

  std::vector<Entry> entries(const Identity& who) const;
  std::string account_name(const Entry& entry);
  Bucket& bucket(const Entry& entry, Flow flow);
  void forget_full();
  void fill(Bucket& bucket, const Rate& rate) const;
  static void foresee(Bucket& bucket, const Rate& rate);
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

  std::function<void()> used_;  // null: nobody shares
  Clock::duration patience_{0};
  std::map<std::pair<std::string, Flow>, Rate> untold_;  // buckets of which something is untold
  // Names with a limit of which something is held, or was asked for; whether that is untold.
  std::unordered_map<std::string, bool> counted_;
  std::unordered_map<std::string, Elsewhere> elsewhere_;
  Clock::time_point pruned_{};  // when room was made there
};

}  // namespace tb::limits
