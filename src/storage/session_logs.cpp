// SPDX-License-Identifier: Apache-2.0
#include "storage/session_logs.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "os/fd.h"
#include "storage/artifact_files.h"

namespace tb::storage {
namespace json = boost::json;
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxWaiting = 10'000;
constexpr std::string_view kSession = "session_";

std::string now_text() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

json::object read_facts(const std::string& file) {
  std::string text;
  try {
    text = os::read_file(file);
  } catch (const Error&) {
    return {};
  }
  boost::system::error_code error;
  const json::value value = json::parse(text, error);
  return !error && value.is_object() ? value.get_object() : json::object{};
}

void merge_facts(const std::string& dir, const json::object& facts) {
  fs::create_directories(dir);
  json::object all = read_facts(dir + "/session.json");
  for (const auto& [key, value] : facts) all[key] = value;
  os::replace_file(dir + "/session.json", json::serialize(all) + "\n", 0600);
}

// Empty: nobody can say, so it is nobody's.
std::optional<std::string> tenant_of(const std::string& dir) {
  const json::object facts = read_facts(dir + "/session.json");
  if (facts.empty()) return std::nullopt;
  const json::value* tenant = facts.if_contains("tenant");
  if (!tenant) return std::string{};  // of before tenants
  return tenant->is_string() ? std::optional{std::string{tenant->get_string()}} : std::nullopt;
}

// Two files, each half of what may be kept: when one is full, the older one goes.
void append_line(const std::string& dir, const std::string& line, Bytes most) {
  const std::string file = dir + "/log.jsonl";
  struct stat info{};
  if (::stat(file.c_str(), &info) == 0 &&
      static_cast<std::uint64_t>(info.st_size) + line.size() > most.count / 2) {
    ::rename(file.c_str(), (dir + "/log.1.jsonl").c_str());
  }
  const os::Fd log{
      check(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600),
            "open a session's log")};
  write_bytes(log, line);
}

std::string read_or_nothing(const std::string& file, std::size_t most) {
  std::error_code absent;
  if (!fs::is_regular_file(file, absent)) return {};
  return os::read_file(file, most);
}

}  // namespace

SessionLogs::SessionLogs(std::string dir, LogLimits limits)
    : dir_(std::move(dir)), limits_(limits) {
  fs::create_directories(dir_);
}

SessionLogs::~SessionLogs() { writer_.join(); }

template <class Work>
void SessionLogs::later(Work work) {
  if (waiting_ >= kMaxWaiting) {
    ++dropped_;
    return;
  }
  ++waiting_;
  asio::post(writer_, [this, work = std::move(work)] {
    try {
      work();
    } catch (const std::exception& error) {
      log(LogLevel::warning, "session_log_not_written", {{"error", error.what()}});
    }
    --waiting_;
  });
}

void SessionLogs::begin(const std::string& session, json::object facts) {
  if (!is_session_name(session)) return;
  followed_.insert(session);
  later([dir = path_of(session), facts = std::move(facts)] { merge_facts(dir, facts); });
}

void SessionLogs::write(const std::string& session, json::object event) {
  if (!follows(session)) return;
  event["at"] = now_text();
  std::string line = json::serialize(event) + "\n";
  later([dir = path_of(session), line = std::move(line), most = limits_.per_session] {
    append_line(dir, line, most);
  });
}

void SessionLogs::keep_agent_file(const std::string& session, std::string name, std::string bytes) {
  if (!follows(session)) return;
  later([dir = path_of(session) + "/agent", name = std::move(name), bytes = std::move(bytes)] {
    fs::create_directories(dir);
    os::replace_file(dir + "/" + name, bytes, 0600);
  });
}

void SessionLogs::end(const std::string& session, json::object facts) {
  if (followed_.erase(session) == 0) return;
  facts["ended_at"] = now_text();
  later([dir = path_of(session), facts = std::move(facts)] { merge_facts(dir, facts); });
}

awaitable<std::string> SessionLogs::read(std::string session, std::string tenant,
                                         std::size_t most) {
  if (!is_session_name(session)) co_return std::string{};
  auto work = [dir = path_of(session), tenant, most, whole = limits_.per_session.count] {
    if (tenant_of(dir) != std::optional{tenant}) return std::string{};
    std::string text =
        read_or_nothing(dir + "/log.1.jsonl", whole) + read_or_nothing(dir + "/log.jsonl", whole);
    if (text.size() > most) {
      const std::size_t line = text.find('\n', text.size() - most - 1);
      text.erase(0, line == text.npos ? text.size() : line + 1);
    }
    return text;
  };
  co_return co_await on_pool(writer_, work);
}

awaitable<std::size_t> SessionLogs::sweep() {
  auto work = [dir = dir_, limits = limits_, followed = followed_] {
    struct Old {
      fs::file_time_type at;
      std::string path;
    };
    std::vector<Old> ended;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator{dir, ignored}) {
      const std::string name = entry.path().filename();
      if (!name.starts_with(kSession) || followed.contains(name.substr(kSession.size()))) continue;
      ended.push_back({fs::last_write_time(entry.path(), ignored), entry.path()});
    }
    std::sort(ended.begin(), ended.end(), [](const Old& a, const Old& b) { return a.at < b.at; });
    const auto before = fs::file_time_type::clock::now() - limits.age;
    std::size_t gone = 0;
    for (const Old& old : ended) {
      if (old.at > before && ended.size() - gone + followed.size() <= limits.sessions) break;
      os::remove_tree(old.path);
      ++gone;
    }
    return gone;
  };
  co_return co_await on_pool(writer_, work);
}

}  // namespace tb::storage
