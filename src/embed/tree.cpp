// SPDX-License-Identifier: Apache-2.0
// The tree of a workspace: what is there, and changes of it.
#include "base/error.h"
#include "embed/files.h"
#include "sandbox/paths.h"

namespace tb::embed {
namespace {

constexpr std::size_t kMostAtOnce = 10000;

void check_most(std::size_t most, const char* name) {
  if (most >= 1 && most <= kMostAtOnce) return;
  throw Error{Code::invalid, std::string{name} + " must be from 1 to 10000"};
}

}  // namespace

std::string any_path(const std::string& name) {
  if (auto path = sandbox::find_path(name)) return std::move(*path);
  throw sandbox::FileError{sandbox::FileProblem::bad_name, "Invalid filename"};
}

std::string path_below(const std::string& name) {
  std::string path = any_path(name);
  if (path.empty()) {
    throw Error{Code::invalid, "the path must name something below the workspace"};
  }
  return path;
}

void check_mode(std::optional<unsigned> mode) {
  if (mode && *mode > 0777) {
    throw Error{Code::invalid, "mode must be permissions up to 0o777, such as 0o644"};
  }
}

awaitable<std::unique_ptr<Work>> work_on(CoreRef core, std::string id, Purpose purpose) {
  const auto session = co_await core->reach(std::move(id));
  const session::Busy busy{*session};
  if (purpose == Purpose::look) {
    session::Use use = co_await core->sessions.look(session);
    co_return std::make_unique<Work>(session, std::move(use));
  }
  session::Use use = co_await core->sessions.use(session);
  co_return std::make_unique<Work>(session, std::move(use));
}

awaitable<FileView> stat_file(CoreRef core, std::string id, std::string path) {
  FileView view;
  view.path = any_path(path);
  const auto work = co_await work_on(core, std::move(id), Purpose::look);
  view.info = co_await work->files().stat(view.path);
  co_return view;
}

awaitable<Walked> walk_files(CoreRef core, std::string id, sandbox::WalkSpec spec) {
  check_most(spec.most, "the limit");
  spec.path = any_path(spec.path);
  const std::string top = spec.path;
  const std::size_t most = spec.most;
  const auto work = co_await work_on(core, std::move(id), Purpose::look);
  Walked walked;
  walked.listing = co_await work->files().walk(std::move(spec));
  if (!walked.listing.complete && walked.listing.files.size() == most) {
    const std::string& last = walked.listing.files.back().name;
    walked.cursor = top.empty() ? last : last.substr(top.size() + 1);
  }
  core->events.files_listed();
  co_return walked;
}

awaitable<Walked> glob_files(CoreRef core, std::string id, sandbox::WalkSpec spec) {
  check_most(spec.most, "the limit");
  if (spec.pattern.empty()) throw Error{Code::invalid, "the pattern is empty"};
  spec.path = any_path(spec.path);
  spec.recursive = true;
  const auto work = co_await work_on(core, std::move(id), Purpose::use);
  Walked walked;
  walked.listing = co_await work->files().walk(std::move(spec));
  co_return walked;
}

awaitable<sandbox::FoundLines> search_files(CoreRef core, std::string id,
                                            sandbox::SearchSpec spec) {
  check_most(spec.most, "max_results");
  if (spec.text.empty()) throw Error{Code::invalid, "the pattern is empty"};
  spec.path = any_path(spec.path);
  const auto work = co_await work_on(core, std::move(id), Purpose::use);
  co_return co_await work->files().search(std::move(spec));
}

awaitable<FileView> make_directory(CoreRef core, std::string id, std::string path,
                                   std::optional<unsigned> mode) {
  check_mode(mode);
  FileView view;
  view.path = path_below(path);
  const auto work = co_await work_on(core, std::move(id), Purpose::use);
  sandbox::Named made = co_await work->files().make_directory(view.path, mode);
  view.info = std::move(made.info);
  co_return view;
}

awaitable<FileView> move_file(CoreRef core, std::string id, std::string from, std::string to,
                              bool replaces) {
  std::string source = path_below(from);
  FileView view;
  view.path = path_below(to);
  const auto work = co_await work_on(core, std::move(id), Purpose::use);
  view.info = co_await work->files().move(std::move(source), view.path, replaces);
  co_return view;
}

awaitable<void> remove_file(CoreRef core, std::string id, std::string path, bool recursive) {
  std::string target = path_below(path);
  const auto work = co_await work_on(core, std::move(id), Purpose::use);
  co_await work->files().remove(std::move(target), recursive);
}

}  // namespace tb::embed
