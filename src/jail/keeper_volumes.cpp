// SPDX-License-Identifier: Apache-2.0
// What the keeper does when it is asked about volumes.
#include <algorithm>

#include "jail/keeper_loop.h"

namespace tb::jail {
namespace {

bool has(const std::vector<Mount>& mounts, const std::string& volume) {
  return std::any_of(mounts.begin(), mounts.end(), [&](const Mount& mount) {
    return mount.kind == Mount::Kind::volume && mount.source == volume;
  });
}

}  // namespace

void Keeper::make_volume(int client, std::uint32_t number, Reader& in) {
  MakeVolume made;
  if (!MakeVolume::decode(in, made)) throw Error{Code::invalid, "malformed make_volume"};
  if (stopping_) throw Error{Code::unavailable, "the keeper is stopping"};
  workshop_.volumes->make(made.id, Bytes{made.limit}, made.label);
  clients_.done({client, number});
}

// Those that run, those that are just ending, and those that may come back.
std::vector<std::string> Keeper::users_of(const std::string& volume) const {
  std::vector<std::string> users;
  for (const auto& [id, live] : live_) {
    if (has(live.jail->mounts, volume)) users.push_back(id);
  }
  for (const auto& [id, dormant] : dormant_) {
    if (has(dormant.record.mounts, volume)) users.push_back(id);
  }
  return users;
}

void Keeper::remove_volume(int client, std::uint32_t number, Reader& in) {
  const std::string id = in.bytes();
  if (!in.done()) throw Error{Code::invalid, "malformed remove_volume"};
  const std::vector<std::string> users = users_of(id);
  if (!users.empty()) throw Error{Code::conflict, "the volume is in use by " + users.front()};
  workshop_.volumes->remove(id);
  clients_.done({client, number});
}

void Keeper::list_volumes(int client, std::uint32_t number, Reader& in) {
  // Servers of before ask for all, without a word.
  const std::string begins = in.done() ? std::string{} : in.bytes();
  if (!in.done()) throw Error{Code::invalid, "malformed list_volumes"};
  std::map<std::string, std::vector<std::string>> users;
  const auto note = [&users](const std::string& id, const std::vector<Mount>& mounts) {
    constexpr std::size_t kMostTold = 256;  // an answer is one packet
    for (const Mount& mount : mounts) {
      if (mount.kind != Mount::Kind::volume) continue;
      std::vector<std::string>& list = users[mount.source];
      if (list.size() < kMostTold) list.push_back(id);
    }
  };
  for (const auto& [id, live] : live_) note(id, live.jail->mounts);
  for (const auto& [id, dormant] : dormant_) note(id, dormant.record.mounts);
  for (const auto& [id, volume] : workshop_.volumes->all()) {
    if (!volume.label.starts_with(begins)) continue;
    VolumeItem item;
    item.id = id;
    item.limit = volume.limit.count;
    item.limited = workshop_.volumes->limited() ? 1 : 0;
    item.label = volume.label;
    item.users = std::move(users[id]);
    Writer out = clients_.reply(Message::volume, number);
    item.encode(out);
    clients_.send(client, out.take());
  }
  clients_.done({client, number});
}

}  // namespace tb::jail
