// SPDX-License-Identifier: Apache-2.0
#include "cluster/record.h"

#include <charconv>

namespace tb::cluster {
namespace {

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

bool read(std::string_view text, std::uint64_t& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::string thread_key(std::string_view thread) { return "{tb}:t:" + std::string{thread}; }

std::string session_key(std::string_view session) { return "{tb}:s:" + std::string{session}; }

std::optional<Record> parse_record(std::string_view text) {
  const std::vector<std::string_view> words = words_of(text);
  if (words.size() != 8) return std::nullopt;
  Record record;
  record.epoch = words[0];
  record.url = words[4];
  record.version = words[7];
  const bool good = read(words[1], record.beat) && read(words[2], record.joined) &&
                    read(words[3], record.view) && read(words[5], record.capacity) &&
                    read(words[6], record.used);
  if (!good) return std::nullopt;
  return record;
}

std::optional<Entry> parse_entry(std::string_view text) {
  const std::vector<std::string_view> words = words_of(text);
  if (words.size() != 4) return std::nullopt;
  Entry entry;
  entry.worker = words[0];
  entry.epoch = words[1];
  entry.session = words[3];
  if (!read(words[2], entry.number)) return std::nullopt;
  return entry;
}

std::map<std::string, std::string> pairs_of(const redis::Reply& reply, std::size_t first) {
  std::map<std::string, std::string> pairs;
  for (std::size_t i = first; i + 1 < reply.list.size(); i += 2)
    pairs[reply.at(i)] = reply.at(i + 1);
  return pairs;
}

bool good_worker_id(std::string_view id) {
  if (id.empty() || id.size() > 64) return false;
  for (const char c : id) {
    if (c <= ' ' || c > '~') return false;
  }
  return true;
}

}  // namespace tb::cluster
