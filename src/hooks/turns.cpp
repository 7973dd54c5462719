// SPDX-License-Identifier: Apache-2.0
#include "hooks/turns.h"

#include <algorithm>

namespace tb::hooks {

bool Turns::fits(const Load& load, std::uint64_t bytes) const {
  const std::uint64_t free = limits_.bytes.count - std::min(bytes_, limits_.bytes.count);
  return load.count < limits_.count - items_.size() && load.bytes + bytes <= free;
}

bool Turns::has_room(const Item& item) const {
  if (items_.size() >= limits_.count) return false;
  const auto source = sources_.find(item.source);
  const auto host = hosts_.find(item.host);
  return fits(source == sources_.end() ? Load{} : source->second.load, item.bytes) &&
         fits(host == hosts_.end() ? Load{} : host->second, item.bytes);
}

// The head of its host may be another one then.
void Turns::insert(Source& source, const Entry& entry) {
  std::set<Place>& places = source.waiting[entry.item.host];
  if (!places.empty()) source.heads.erase({places.begin()->when, entry.item.host});
  places.insert({entry.when, entry.number, entry.item.id});
  source.heads.emplace(places.begin()->when, entry.item.host);
}

void Turns::erase(Source& source, const Entry& entry) {
  const auto places = source.waiting.find(entry.item.host);
  source.heads.erase({places->second.begin()->when, entry.item.host});
  places->second.erase({entry.when, entry.number, entry.item.id});
  if (places->second.empty()) {
    source.waiting.erase(places);
  } else {
    source.heads.emplace(places->second.begin()->when, entry.item.host);
  }
}

void Turns::add(const Item& item, Time when) {
  if (running(item.id)) return;
  remove(item.id);
  const Entry& entry = items_[item.id] = {item, when, ++added_};
  Source& source = sources_[item.source];
  insert(source, entry);
  for (Load* load : {&source.load, &hosts_[item.host]}) {
    ++load->count;
    load->bytes += item.bytes;
  }
  bytes_ += item.bytes;
}

void Turns::forget(const std::string& id) {
  const auto entry = items_.find(id);
  const Item& item = entry->second.item;
  const auto source = sources_.find(item.source);
  const auto host = hosts_.find(item.host);
  for (Load* load : {&source->second.load, &host->second}) {
    --load->count;
    load->bytes -= item.bytes;
    if (entry->second.running) --load->running;
  }
  if (entry->second.running) --running_;
  bytes_ -= item.bytes;
  if (source->second.load.count == 0) sources_.erase(source);
  if (host->second.count == 0) hosts_.erase(host);
  items_.erase(entry);
}

bool Turns::remove(const std::string& id) {
  const auto entry = items_.find(id);
  if (entry == items_.end() || entry->second.running) return false;
  erase(sources_.at(entry->second.item.source), entry->second);
  forget(id);
  return true;
}

// Few are passed over: hosts at their limit are as few as places at a time are.
const std::string* Turns::choose(const Source& source, Time now) const {
  if (source.load.running >= limits_.per_source) return nullptr;
  for (const auto& [when, host] : source.heads) {
    if (when > now) break;
    if (hosts_.at(host).running < limits_.per_host) return &host;
  }
  return nullptr;
}

std::optional<Turns::Item> Turns::take(Time now) {
  if (running_ >= limits_.at_once) return std::nullopt;
  auto at = sources_.upper_bound(last_);
  for (std::size_t i = 0; i < sources_.size(); ++i, ++at) {
    if (at == sources_.end()) at = sources_.begin();
    Source& source = at->second;
    const std::string* host = choose(source, now);
    if (!host) continue;
    Entry& entry = items_.at(source.waiting.at(*host).begin()->id);
    erase(source, entry);
    entry.running = true;
    ++source.load.running;
    ++hosts_.at(entry.item.host).running;
    ++running_;
    last_ = at->first;
    return entry.item;
  }
  return std::nullopt;
}

void Turns::done(const std::string& id) {
  if (running(id)) forget(id);
}

bool Turns::running(const std::string& id) const {
  const auto entry = items_.find(id);
  return entry != items_.end() && entry->second.running;
}

std::vector<std::string> Turns::waiting_of(const std::string& source) const {
  std::vector<std::string> ids;
  const auto found = sources_.find(source);
  if (found == sources_.end()) return ids;
  for (const auto& [host, places] : found->second.waiting) {
    for (const Place& place : places) ids.push_back(place.id);
  }
  return ids;
}

std::optional<Turns::Time> Turns::next() const {
  std::optional<Time> least;
  if (running_ >= limits_.at_once) return least;
  for (const auto& [name, source] : sources_) {
    if (source.load.running >= limits_.per_source) continue;
    for (const auto& [when, host] : source.heads) {
      if (least && when >= *least) break;
      if (hosts_.at(host).running >= limits_.per_host) continue;
      least = when;
      break;
    }
  }
  return least;
}

}  // namespace tb::hooks
