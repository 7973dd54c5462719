// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/checkpoints.h"

#include <algorithm>

#include "base/error.h"
#include "base/log.h"

namespace tb::checkpoints {
namespace {

constexpr Milliseconds kLook = 250ms;
constexpr Milliseconds kAtWork = 30s;         // commands that go on are looked at
constexpr Milliseconds kAgain = 5s;           // after a failure
constexpr std::size_t kPage = 1000;           // of a walk
constexpr std::size_t kMostPaths = 40 << 10;  // bytes of paths that one archive takes
// A file that was changed that shortly before may have been changed again without a trace.
constexpr auto kUnsure = 2s;

// Without a directory the time of its creation grows in the same way.
std::uint64_t generation_of(const session::Session& session) {
  if (session.claim != 0) return session.claim;
  const auto since = session.created.time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<Milliseconds>(since).count());
}

bool can_be_kept(const session::Session& session) {
  return !session.spec.thread.empty() && session.spec.provider == session::kNative;
}

}  // namespace

Checkpoints::Checkpoints(asio::any_io_executor executor, std::unique_ptr<Objects> objects,
                         Settings settings)
    : executor_(executor),
      objects_(std::move(objects)),
      settings_(settings),
      done_(executor),
      tasks_(executor, [](const std::string&, std::exception_ptr) {}) {}

void Checkpoints::open(session::Sessions& sessions) {
  sessions_ = &sessions;
  // What an earlier server did in them may not have been kept.
  for (const Held& session : sessions.all()) changed(session);
  tasks_.spawn("look around", [this] { return look_around(); });
}

awaitable<void> Checkpoints::close() {
  for (auto& [id, kept] : kept_) {
    if (kept->dirty && !kept->at_work) begin(id, *kept);
  }
  auto over = [this] { return at_work_ == 0; };
  co_await done_.until(over, settings_.last);
  co_await tasks_.close();
}

void Checkpoints::changed(const Held& session) {
  if (!can_be_kept(*session)) return;
  std::shared_ptr<Kept>& kept = kept_[session->id];
  if (!kept) kept = std::make_shared<Kept>();
  const auto now = Clock::now();
  if (!kept->dirty) kept->dirty_since = now;
  kept->session = session;
  kept->dirty = true;
  kept->last_change = now;
}

Checkpoints::Totals Checkpoints::totals() const {
  Totals totals = totals_;
  for (const auto& [id, kept] : kept_) totals.waiting += kept->dirty ? 1 : 0;
  return totals;
}

bool Checkpoints::due(const Kept& kept, Clock::time_point now) const {
  if (!kept.dirty || kept.at_work || now < kept.not_before) return false;
  const Held session = kept.session.lock();
  if (!session || !session->sandbox || session->moving) return false;
  if (now - kept.dirty_since >= settings_.longest) return true;
  return now - kept.last_change >= settings_.delay;
}

awaitable<void> Checkpoints::look_around() {
  asio::steady_timer timer{executor_};
  for (;;) {
    timer.expires_after(kLook);
    co_await timer.async_wait(asio::use_awaitable);
    std::erase_if(kept_, [](const auto& one) {
      return one.second->session.expired() && !one.second->at_work;
    });
    mark_those_at_work();
    const auto now = Clock::now();
    for (auto& [id, kept] : kept_) {
      if (at_work_ < settings_.at_once && due(*kept, now)) begin(id, *kept);
    }
  }
}

void Checkpoints::begin(const std::string& id, Kept& kept) {
  kept.at_work = true;
  ++at_work_;
  tasks_.spawn("keep", [this, id] { return keep(id); });
}

// Commands that take long change files, too.
void Checkpoints::mark_those_at_work() {
  const auto now = Clock::now();
  if (now - looked_ < kAtWork) return;
  looked_ = now;
  for (const Held& session : sessions_->all()) {
    if (session::Sessions::in_use(*session)) changed(session);
  }
}

awaitable<void> Checkpoints::keep(std::string id) {
  const std::shared_ptr<Kept> kept = kept_[id];
  const Held session = kept->session.lock();
  kept->dirty = false;
  std::string problem;
  try {
    if (session && sessions_->find(id) == session) co_await keep_now(session, *kept);
  } catch (const std::exception& error) {
    problem = error.what();
  }
  if (!problem.empty()) {
    ++totals_.failed;
    log(LogLevel::warning, "workspace_not_kept",
        {{"session", id.substr(0, 12)}, {"error", problem}});
    if (!kept->dirty) kept->dirty_since = Clock::now();
    kept->dirty = true;
    kept->not_before = Clock::now() + kAgain;
  }
  kept->at_work = false;
  --at_work_;
  done_.notify_all();
}

awaitable<Checkpoints::Tree> Checkpoints::read_tree(sandbox::Files& files) {
  Tree tree;
  std::string after;
  for (;;) {
    sandbox::WalkSpec spec;
    spec.recursive = true;
    spec.after = after;
    spec.most = kPage;
    const sandbox::Listing page = co_await files.walk(std::move(spec));
    for (const sandbox::FileInfo& info : page.files) {
      if (info.type == sandbox::FileType::other) continue;
      // A directory is other when its files are, which stand for themselves.
      const bool directory = info.type == sandbox::FileType::directory;
      Seen seen{info.type, info.mode, directory ? 0 : info.size.count, info.modified};
      if (directory) seen.modified = {};
      tree[info.name] = seen;
    }
    if (page.complete || page.files.empty()) co_return tree;
    after = page.files.back().name;
  }
}

Checkpoints::Change Checkpoints::compare(const Kept& kept, const Tree& now) const {
  Change change;
  const Manifest& manifest = kept.manifest;
  change.all = manifest.layers.empty() || manifest.layers.size() >= settings_.layers;
  std::size_t bytes = 0;
  for (const auto& [path, seen] : now) {
    const auto before = kept.tree.find(path);
    const bool unsure =
        seen.type != sandbox::FileType::directory && seen.modified > manifest.kept_at - kUnsure;
    if (before != kept.tree.end() && before->second == seen && !unsure) continue;
    const bool same = before == kept.tree.end() || before->second.type == seen.type;
    if (!same) change.all = true;
    // What is below one comes with it: only those with nothing below are named.
    if (seen.type == sandbox::FileType::directory) {
      const auto next = now.upper_bound(path + "/");
      if (next != now.end() && next->first.starts_with(path + "/")) continue;
    }
    change.paths.push_back(path);
    bytes += path.size() + 8;
  }
  for (const auto& [path, seen] : kept.tree) {
    if (!now.contains(path)) change.gone.push_back(path);
  }
  change.all = change.all || bytes > kMostPaths;
  return change;
}

awaitable<void> Checkpoints::keep_now(Held session, Kept& kept) {
  const std::shared_ptr<sandbox::Sandbox> sandbox = session->sandbox;
  if (!sandbox || !sandbox->alive()) co_return;
  const std::uint64_t generation = generation_of(*session);
  const bool first = kept.generation != generation;
  if (first) {
    kept.generation = generation;
    kept.manifest = {};
    kept.tree.clear();
  }
  const auto began = std::chrono::system_clock::now();
  Tree now = co_await read_tree(sandbox->files());
  const Change change = compare(kept, now);
  if (change.empty()) co_return;
  const std::string prefix = generation_prefix(session->thread_key(), generation);
  Manifest manifest;
  if (!change.all) manifest = kept.manifest;
  manifest.kept_at = began;
  for (const std::string& path : change.gone) manifest.removed.insert(path);
  for (const auto& [path, seen] : now) manifest.removed.erase(path);
  if (change.all) manifest.removed.clear();
  // A number of its own after a restart, too: what has it is overwritten by nobody.
  const auto millis = std::chrono::duration_cast<Milliseconds>(began.time_since_epoch()).count();
  kept.number = std::max(kept.number + 1, static_cast<std::uint64_t>(millis / 1000));
  if (change.all || !change.paths.empty()) {
    Layer layer = co_await put_layer(sandbox->files(), prefix, kept.number, change);
    totals_.bytes += layer.bytes;
    manifest.layers.push_back(std::move(layer));
  }
  co_await objects_->put(prefix + "/" + manifest_name(kept.number), to_text(manifest));
  ++totals_.kept;
  kept.manifest = std::move(manifest);
  kept.tree = std::move(now);
  const std::uint64_t oldest =
      kept.manifest.layers.empty() ? kept.number : kept.manifest.layers.front().number;
  if (change.all || first) co_await clear(session->thread_key(), generation, oldest);
}

awaitable<Layer> Checkpoints::put_layer(sandbox::Files& files, const std::string& prefix,
                                        std::uint64_t number, const Change& change) {
  Layer layer;
  layer.number = number;
  std::vector<std::string> paths = change.all ? std::vector<std::string>(1) : change.paths;
  if (!change.all && paths.size() == 1) {
    // The names in an archive of one path are relative to it, or to where it is.
    const std::string& only = paths.front();
    const sandbox::FileInfo info = co_await files.stat(only);
    const std::size_t slash = only.rfind('/');
    layer.place = only.substr(0, slash == only.npos ? 0 : slash);
    if (info.type == sandbox::FileType::directory) layer.place = only;
  }
  const auto archive = co_await files.archive(std::move(paths), true, Bytes{UINT64_MAX});
  std::string bytes;
  std::string piece(256 << 10, '\0');
  for (;;) {
    const std::size_t got = co_await archive->read(piece);
    bytes.append(piece, 0, got);
    layer.bytes += got;
    if (bytes.empty() || (got > 0 && bytes.size() < settings_.part)) {
      if (got == 0) break;
      continue;
    }
    co_await objects_->put(prefix + "/" + part_name(number, layer.parts), std::move(bytes));
    bytes.clear();
    ++layer.parts;
    if (got == 0) break;
  }
  co_return layer;
}

// What nobody needs any more: of this generation what is older than `from`, and all of earlier
// ones. A later one is another owner's.
awaitable<void> Checkpoints::clear(std::string thread, std::uint64_t generation,
                                   std::uint64_t from) {
  const std::vector<std::string> keys = co_await objects_->list(thread_prefix(thread));
  const std::string ours = generation_prefix(thread, generation) + "/";
  const std::string oldest = ours + part_name(from, 0).substr(0, 10);
  for (const std::string& key : keys) {
    const auto of = checkpoints::generation_of(key);
    const bool earlier = of && *of < generation;
    const bool older = key.starts_with(ours) && key < oldest;
    if (earlier || older) co_await objects_->remove(key);
  }
}

awaitable<void> Checkpoints::clear_all(std::string thread, std::uint64_t generation) {
  try {
    co_await clear(std::move(thread), generation + 1, 0);
  } catch (const std::exception& error) {
    log(LogLevel::warning, "workspace_not_forgotten", {{"error", error.what()}});
  }
}

void Checkpoints::forget(const session::Session& session) {
  const auto kept = kept_.find(session.id);
  if (kept != kept_.end()) kept->second->dirty = false;  // the rest goes with the session
  if (!can_be_kept(session)) return;
  tasks_.spawn("forget",
               [this, thread = session.thread_key(), generation = generation_of(session)] {
                 return clear_all(thread, generation);
               });
}

awaitable<std::optional<session::WallTime>> Checkpoints::restore(Held session) {
  if (!can_be_kept(*session)) co_return std::nullopt;
  const std::vector<std::string> keys =
      co_await objects_->list(thread_prefix(session->thread_key()));
  const auto last = std::find_if(keys.rbegin(), keys.rend(), is_manifest);
  if (last == keys.rend()) co_return std::nullopt;
  const std::optional<std::string> text = co_await objects_->get(*last);
  const std::optional<Manifest> manifest = text ? from_text(*text) : std::nullopt;
  if (!manifest) throw Error{Code::unavailable, "WORKSPACE_STORE: " + *last + " can't be read"};
  const std::shared_ptr<sandbox::Sandbox> sandbox = session->sandbox;
  const std::string prefix = last->substr(0, last->rfind('/'));
  for (const Layer& layer : manifest->layers) {
    co_await unpack(sandbox->files(), prefix, layer);
  }
  for (const std::string& path : manifest->removed) {
    try {
      co_await sandbox->files().remove(path, true);
    } catch (const sandbox::FileError&) {
      // It went with the directory that it was in.
    }
  }
  ++totals_.restored;
  log(LogLevel::info, "workspace_restored",
      {{"session", session->id.substr(0, 12)},
       {"layers", std::to_string(manifest->layers.size()), true}});
  co_return manifest->kept_at;
}

awaitable<void> Checkpoints::unpack(sandbox::Files& files, std::string prefix, Layer layer) {
  sandbox::FileLimits limits;
  limits.file = limits.workspace = Bytes{UINT64_MAX};
  limits.count = UINT64_MAX;
  if (!layer.place.empty()) co_await files.make_directory(layer.place, std::nullopt);
  const auto archive = co_await files.unpack(layer.place, limits);
  for (std::uint64_t part = 0; part < layer.parts; ++part) {
    const std::string key = prefix + "/" + part_name(layer.number, part);
    const std::optional<std::string> bytes = co_await objects_->get(key);
    if (!bytes) throw Error{Code::unavailable, "WORKSPACE_STORE: " + key + " is missing"};
    const bool wanted = co_await archive->write(*bytes);
    if (!wanted) break;
  }
  co_await archive->finish();
}

}  // namespace tb::checkpoints
