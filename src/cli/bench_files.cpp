// SPDX-License-Identifier: Apache-2.0
// Rows on files: through the engine, over HTTP, and what the host itself takes for as much.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "cli/bench_http.h"
#include "cli/bench_rows.h"
#include "os/fd.h"

namespace tb::cli {
namespace {

constexpr std::size_t kPiece = 256 << 10;
constexpr const char* kName = "upload.bin";  // one name, replaced each time

struct Transfer {
  const char* size;
  std::size_t bytes;
  Seed upload_local, upload_remote, download_local, download_remote;
};
constexpr Transfer kTransfers[] = {
    {"1 MB", 1 << 20, seed::kUploadLocal, seed::kUploadRemote, seed::kDownloadLocal,
     seed::kDownloadRemote},
    {"100 MB", 100 << 20, {}, {}, {}, {}},
};

unsigned rounds_of(const Transfer& transfer, const BenchOptions& options) {
  if (transfer.bytes <= 1 << 20) return std::max(options.rounds / 3, 3u);
  return std::clamp(options.rounds / 20, 3u, 20u);
}

awaitable<void> engine_upload(sandbox::Sandbox& sandbox, std::string_view content) {
  const auto file = co_await sandbox.files().create();
  for (std::size_t at = 0; at < content.size(); at += kPiece) {
    const std::string_view piece = content.substr(at, kPiece);
    co_await file->write(piece);
  }
  const sandbox::FileInfo info = co_await file->commit(kName);
  if (info.size.count != content.size()) throw Error{Code::internal, "an upload was cut"};
}

awaitable<void> engine_download(sandbox::Sandbox& sandbox, std::size_t size) {
  const auto file = co_await sandbox.files().open(kName);
  std::vector<char> buffer(kPiece);
  std::uint64_t at = 0;
  while (const std::size_t got = co_await file->read(at, buffer)) at += got;
  if (at != size) throw Error{Code::internal, "a download was cut"};
}

std::string make_files(unsigned count) {
  return "for i in $(seq " + std::to_string(count) + "); do echo $i > file-$i.txt; done";
}

awaitable<void> engine_list(sandbox::Sandbox& sandbox, unsigned count) {
  const sandbox::Listing listing = co_await sandbox.files().list({}, 2 * count);
  if (listing.files.size() != count) throw Error{Code::internal, "a listing was cut"};
}

void http_list(BenchClient& client, const std::string& session, unsigned count) {
  const std::string answer = client.get("/list_files?session_id=" + session);
  if (answer.find("\"total_files\":" + std::to_string(count) + ",") == std::string::npos) {
    throw Error{Code::internal, "a listing was cut: " + answer.substr(0, 300)};
  }
}

void bare_read(const std::string& path) {
  const os::Fd file{check(::open(path.c_str(), O_RDONLY | O_CLOEXEC), "open " + path)};
  std::vector<char> buffer(kPiece);
  while (check(::read(file.get(), buffer.data(), buffer.size()), "read " + path) > 0) {
  }
}

// What the kernel itself takes for a listing: no process is started, and nothing is sent.
void bare_list(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream{::opendir(path.c_str()), ::closedir};
  if (!stream) throw SystemError{errno, "opendir " + path};
  while (const dirent* item = ::readdir(stream.get())) {
    struct stat info{};
    check(::fstatat(::dirfd(stream.get()), item->d_name, &info, AT_SYMLINK_NOFOLLOW), "fstatat");
  }
}

// Where the bare counterparts work, on the file system of the sandboxes.
std::string bare_dir(const Bench& bench) {
  const std::string dir = bench.config.state_dir + "/bare";
  std::filesystem::create_directories(dir);
  return dir;
}

struct Places {
  BenchClient& client;
  std::string session;
  sandbox::Sandbox& sandbox;
  std::string dir;
};

awaitable<void> transfer_rows(Bench& bench, const Places& at, const Transfer& transfer) {
  const std::string content(transfer.bytes, 'x');
  const std::string from = at.dir + "/from";
  const std::string to = at.dir + "/to";
  std::ofstream{from} << content;
  Samples copy, engine_up, http_up, read, engine_down, http_down;
  const unsigned warmup = 2;
  for (unsigned round = 0; round < rounds_of(transfer, bench.options) + warmup; ++round) {
    const auto copied = timed([&] { bare_run({"cp", from, to}); });
    const auto put = co_await timed_task(engine_upload(at.sandbox, content));
    const auto posted = timed([&] { at.client.upload(at.session, kName, content); });
    const auto seen = timed([&] { bare_read(to); });
    const auto got = co_await timed_task(engine_download(at.sandbox, content.size()));
    const auto fetched = timed([&] { at.client.download(at.session, kName, content.size()); });
    if (round < warmup) continue;
    copy.add(copied);
    engine_up.add(put);
    http_up.add(posted);
    read.add(seen);
    engine_down.add(got);
    http_down.add(fetched);
  }
  const std::string size = transfer.size;
  const std::string bare_up = "bare cp of " + size;
  const std::string bare_down = "bare read of " + size;
  BenchTable& table = bench.table;
  table.add(bare_up, std::move(copy));
  table.add("upload " + size + " through the engine", std::move(engine_up), bare_up,
            transfer.upload_local);
  table.add("upload " + size + " over HTTP", std::move(http_up), bare_up, transfer.upload_remote);
  table.add(bare_down, std::move(read));
  table.add("download " + size + " through the engine", std::move(engine_down), bare_down,
            transfer.download_local);
  table.add("download " + size + " over HTTP", std::move(http_down), bare_down,
            transfer.download_remote);
}

// The files are made by a command: uploads have a limit on their number.
awaitable<void> listing_rows(Bench& bench, const Places& at, unsigned count) {
  const std::string dir = at.dir + "/listed";
  const std::string script = make_files(count);
  std::filesystem::create_directories(dir);
  bare_run({"bash", "-c", "cd " + dir + " && " + script});
  co_await exec(at.sandbox, script);
  at.client.post("/execute",
                 "{\"session_id\":\"" + at.session + "\",\"command\":\"" + script + "\"}");
  Samples bare, calls, engine, http;
  for (unsigned round = 0; round < bench.options.rounds / 3 + kWarmup; ++round) {
    const auto bare_time = timed([&] { bare_run({"ls", "-la", dir}); });
    const auto calls_time = timed([&] { bare_list(dir); });
    const auto engine_time = co_await timed_task(engine_list(at.sandbox, count));
    const auto http_time = timed([&] { http_list(at.client, at.session, count); });
    if (round < kWarmup) continue;
    bare.add(bare_time);
    calls.add(calls_time);
    engine.add(engine_time);
    http.add(http_time);
  }
  const std::string files = std::to_string(count) + " files";
  const std::string beside = "bare ls -la of " + files;
  bench.table.add(beside, std::move(bare));
  bench.table.add("bare system calls for " + files, std::move(calls), beside);
  bench.table.add("list " + files + " through the engine", std::move(engine), beside,
                  seed::kListLocal);
  bench.table.add("list " + files + " over HTTP", std::move(http), beside, seed::kListRemote);
}

}  // namespace

awaitable<void> file_rows(Bench& bench) {
  BenchServer server{bench.config, 1, kFullCore};
  BenchClient client{server.port()};
  const auto sandbox = co_await bench.make();
  const Places places{client, client.create_session(), *sandbox, bare_dir(bench)};
  for (const Transfer& transfer : kTransfers) co_await transfer_rows(bench, places, transfer);
  client.cleanup(places.session);
  co_await bench.provider.destroy(sandbox->id());
}

awaitable<void> list_rows(Bench& bench) {
  BenchServer server{bench.config, 1, kFullCore};
  BenchClient client{server.port()};
  const auto sandbox = co_await bench.make();
  const Places places{client, client.create_session(), *sandbox, bare_dir(bench)};
  for (const unsigned count : {10u, 1000u}) co_await listing_rows(bench, places, count);
  client.cleanup(places.session);
  co_await bench.provider.destroy(sandbox->id());
}

}  // namespace tb::cli
