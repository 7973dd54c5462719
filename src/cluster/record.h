// SPDX-License-Identifier: Apache-2.0
// What the directory keeps of a worker and of a thread (docs/cluster.md), as text and as values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "redis/reply.h"

namespace tb::cluster {

// Names of keys. All share a hash tag, because a claim needs the registry beside its thread: in a
// Redis Cluster the directory is on one shard.
inline constexpr const char* kWorkers = "{tb}:workers";
inline constexpr const char* kMembers = "{tb}:members";
inline constexpr const char* kRun = "{tb}:run";
inline constexpr const char* kNext = "{tb}:next";
std::string thread_key(std::string_view thread);
std::string session_key(std::string_view session);

// "epoch beat joined view url capacity used version"
struct Record {
  std::string epoch;
  std::uint64_t beat = 0;
  std::uint64_t joined = 0;
  std::uint64_t view = 0;
  std::string url;
  std::uint64_t capacity = 0;  // sandboxes
  std::uint64_t used = 0;
  std::string version;
};

std::optional<Record> parse_record(std::string_view text);

// "worker epoch number session"
struct Entry {
  std::string worker;
  std::string epoch;
  std::uint64_t number = 0;
  std::string session;
};

std::optional<Entry> parse_entry(std::string_view text);

// Names and values in turn, as HGETALL and our scripts answer, from `first` on.
std::map<std::string, std::string> pairs_of(const redis::Reply& reply, std::size_t first);

// Whether it can be a word of a record, and a field's name: 1 to 64 visible characters.
bool good_worker_id(std::string_view id);

}  // namespace tb::cluster
