// SPDX-License-Identifier: Apache-2.0
// The tree /sandbox of a session that was made of an environment: what is put there at its
// beginning, and what stays of it after its end.
#include <array>
#include <boost/json.hpp>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "session/sessions.h"

namespace tb::session {
namespace json = boost::json;
namespace {

constexpr Bytes kMostKept = 1_MiB;  // of a file of the agent
constexpr auto kSaving = 5s;        // a sandbox that does not answer keeps nobody from ending it
constexpr const char* kState = "state.json";
constexpr const char* kAgentFiles[] = {kState, "memory.json", "plan.md"};
// Of the workspace, as agents of the /api system expect them.
constexpr const char* kDirectories[] = {"src/", "data/", "outputs/", "tmp/"};

// One directory in a tar: name, mode and type, and the sum over the header.
std::string tar_directory(const char* name) {
  std::array<char, 512> header{};
  std::snprintf(header.data(), 100, "%s", name);
  std::snprintf(header.data() + 100, 8, "%07o", 0755u);
  for (const std::size_t at : {108u, 116u}) std::snprintf(header.data() + at, 8, "%07o", 0u);
  std::snprintf(header.data() + 124, 12, "%011o", 0u);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  std::snprintf(header.data() + 136, 12, "%011llo", static_cast<unsigned long long>(seconds));
  header[156] = '5';
  std::memcpy(header.data() + 257, "ustar\00000", 8);
  std::memset(header.data() + 148, ' ', 8);
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(header.data() + 148, 8, "%06o", sum);
  return {header.data(), header.size()};
}

json::object facts_of(const Session& session) {
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(session.created.time_since_epoch());
  return {{"session_id", session.id},
          {"thread_id", session.spec.thread},
          {"user_id", session.spec.user},
          {"provider", session.spec.provider},
          {"environment", session.spec.environment},
          {"agent", session.spec.agent},
          {"policy", session.spec.policy},
          {"created", seconds.count()}};
}

awaitable<void> put_directories(sandbox::Files& files) {
  std::string tar;
  for (const char* name : kDirectories) tar += tar_directory(name);
  tar.append(1024, '\0');
  const auto archive = co_await files.unpack({}, sandbox::FileLimits{});
  co_await archive->write(tar);
  co_await archive->finish();
}

awaitable<void> put_file(sandbox::Files& files, std::string path, const std::string& text) {
  const auto file = co_await files.create();
  co_await file->write(text);
  co_await file->commit(std::move(path));
}

awaitable<std::string> read_file(sandbox::Files& files, std::string path) {
  const auto file = co_await files.open(std::move(path));
  std::string bytes(std::min(file->info().size, kMostKept).count, '\0');
  std::size_t have = 0;
  while (have < bytes.size()) {
    const std::span<char> rest{bytes.data() + have, bytes.size() - have};
    const std::size_t got = co_await file->read(have, rest);
    if (got == 0) break;
    have += got;
  }
  bytes.resize(have);
  co_return bytes;
}

}  // namespace

// Not having it is no reason to have no session: an image may lack the place.
awaitable<void> Sessions::furnish(std::shared_ptr<Session> session) {
  if (session->spec.environment.empty()) co_return;
  if (logs_) {
    // Whose it is concerns us and no sandbox.
    json::object facts = facts_of(*session);
    facts["tenant"] = session->spec.tenant;
    logs_->begin(session->id, std::move(facts));
  }
  const std::shared_ptr<sandbox::Sandbox> sandbox = session->sandbox;
  if (session->spec.provider != kNative || !sandbox) co_return;
  try {
    const std::string text = json::serialize(facts_of(*session)) + "\n";
    co_await put_directories(sandbox->files());
    co_await put_file(sandbox->files(), "/sandbox/meta/session.json", text);
  } catch (const std::exception& error) {
    log(LogLevel::warning, "sandbox_tree_not_made",
        {{"session", session->id.substr(0, 12)}, {"error", error.what()}});
  }
}

awaitable<std::string> Sessions::agent_state(std::shared_ptr<Session> session) {
  if (session->asleep) co_await awake(session);
  const std::shared_ptr<sandbox::Sandbox> sandbox = session->sandbox;
  if (session->spec.provider != kNative || !sandbox || !sandbox->alive()) co_return std::string{};
  try {
    co_return co_await read_file(sandbox->files(), std::string{"/sandbox/agent/"} + kState);
  } catch (const std::exception&) {
    co_return std::string{};  // there is none, or what is there is no file
  }
}

awaitable<void> Sessions::save_state(std::shared_ptr<Session> session) {
  const bool followed = logs_ && logs_->follows(session->id);
  if (followed && session->asleep) {
    try {
      co_await awake(session);
    } catch (const Error&) {
      // It ends without its state, as one that expires by itself.
    }
  }
  const std::shared_ptr<sandbox::Sandbox> sandbox = session->sandbox;
  if (!followed || session->spec.provider != kNative || !sandbox || !sandbox->alive()) co_return;
  auto work = [](storage::SessionLogs* logs, std::shared_ptr<Session> of,
                 std::shared_ptr<sandbox::Sandbox> box) -> awaitable<bool> {
    const sandbox::Listing there = co_await box->files().list("/sandbox/agent", 1000);
    for (const sandbox::FileInfo& info : there.files) {
      for (const char* name : kAgentFiles) {
        if (info.name != name || info.type != sandbox::FileType::file) continue;
        std::string bytes = co_await read_file(box->files(), std::string{"/sandbox/agent/"} + name);
        logs->keep_agent_file(of->id, name, std::move(bytes));
      }
    }
    co_return true;
  };
  try {
    co_await within(kSaving, work(logs_, session, sandbox));
  } catch (const std::exception& error) {
    log(LogLevel::warning, "agent_state_not_saved",
        {{"session", session->id.substr(0, 12)}, {"error", error.what()}});
  }
}

void Sessions::note_end(const Session& session, const char* how) {
  if (logs_) logs_->end(session.id, {{"ended", how}});
}

}  // namespace tb::session
