// SPDX-License-Identifier: Apache-2.0
// Who is next: what waits for its time, and the turns that those take who ask for it. In memory and
// without a clock; bounded in number and bytes.
//
// A source is who asked (a session, a tenant, a webhook), a host who is to receive. Sources take
// turns, and neither one source nor one host has all places at a time: a host that hangs and a
// source that names thousands of hosts keep nobody else waiting. Of the room each source and each
// host has as much at most as is left free: one that fills it has half, and there is room for every
// other.
#pragma once

#include <chrono>
#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/units.h"

namespace tb::hooks {

class Turns {
 public:
  using Time = std::chrono::system_clock::time_point;
  struct Limits {
    std::size_t at_once = 32;
    std::size_t per_source = 8;
    std::size_t per_host = 4;
    std::size_t count = 10'000;
    Bytes bytes = 256_MiB;
  };
  struct Item {
    std::string id;
    std::string source;
    std::string host;
    std::uint64_t bytes = 0;
  };
  explicit Turns(Limits limits) : limits_(limits) {}

  bool has_room(const Item& item) const;
  // Not before `when`. One with this id that waits is moved; one that runs is not added.
  void add(const Item& item, Time when);
  // One that waits; false: there is none.
  bool remove(const std::string& id);
  // The next whose time has come; it runs until done().
  std::optional<Item> take(Time now);
  void done(const std::string& id);

  bool knows(const std::string& id) const { return items_.contains(id); }
  bool running(const std::string& id) const;
  // All of its that wait.
  std::vector<std::string> waiting_of(const std::string& source) const;
  // When there is something to take; empty: not before one that runs is done, or one is added.
  std::optional<Time> next() const;
  std::size_t size() const { return items_.size(); }  // with those that run
  std::uint64_t bytes() const { return bytes_; }

 private:
  // Of those with the same time the one that was added first has the first turn.
  struct Place {
    Time when;
    std::uint64_t number = 0;
    std::string id;
    auto operator<=>(const Place&) const = default;
  };
  struct Load {
    std::size_t count = 0;
    std::size_t running = 0;
    std::uint64_t bytes = 0;
  };
  struct Source {
    Load load;
    std::map<std::string, std::set<Place>> waiting;  // by host
    std::set<std::pair<Time, std::string>> heads;    // the first of each host
  };
  struct Entry {
    Item item;
    Time when;
    std::uint64_t number = 0;
    bool running = false;
  };
  using Sources = std::map<std::string, Source>;
  void insert(Source& source, const Entry& entry);
  void erase(Source& source, const Entry& entry);
  void forget(const std::string& id);
  // The host of `source` that has its turn.
  const std::string* choose(const Source& source, Time now) const;
  bool fits(const Load& load, std::uint64_t bytes) const;

  Limits limits_;
  std::unordered_map<std::string, Entry> items_;
  Sources sources_;
  std::unordered_map<std::string, Load> hosts_;
  std::uint64_t added_ = 0;
  std::size_t running_ = 0;
  std::uint64_t bytes_ = 0;
  std::string last_;  // source that had its turn
};

}  // namespace tb::hooks
