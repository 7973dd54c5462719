// SPDX-License-Identifier: Apache-2.0
#include "sandbox/writing.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <set>

#include "base/async.h"

namespace tb::sandbox {

// The version of a file tells apart what a program wrote, as finely as the kernel's clock ticks.
// Two clients at once are faster than that: they take turns.
class EditTurns {
 public:
  explicit EditTurns(asio::any_io_executor executor) : changed_(executor) {}
  awaitable<void> take(const std::string& path) {
    while (!busy_.insert(path).second) co_await changed_.wait();
  }
  void give_back(const std::string& path) {
    busy_.erase(path);
    changed_.notify_all();
  }

 private:
  std::set<std::string> busy_;
  Signal changed_;
};

namespace {

class Turn {
 public:
  static awaitable<Turn> take(Files& files, std::string path) {
    if (!files.edit_turns) {
      const auto executor = co_await asio::this_coro::executor;
      files.edit_turns = std::make_shared<EditTurns>(executor);
    }
    const std::shared_ptr<EditTurns> turns = files.edit_turns;
    co_await turns->take(path);
    co_return Turn{turns, std::move(path)};
  }
  Turn(Turn&&) noexcept = default;
  Turn& operator=(Turn&&) = delete;
  ~Turn() {
    if (turns_) turns_->give_back(path_);
  }

 private:
  Turn(std::shared_ptr<EditTurns> turns, std::string path)
      : turns_(std::move(turns)), path_(std::move(path)) {}
  std::shared_ptr<EditTurns> turns_;
  std::string path_;
};

constexpr std::size_t kPiece = 256 << 10;
constexpr std::size_t kLinesTold = 100;

// memmem(3) takes time in proportion to the text, whatever is looked for; string::find does not.
std::size_t find_text(std::string_view text, std::string_view what, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const void* at = ::memmem(text.data() + from, text.size() - from, what.data(), what.size());
  if (!at) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(at) - text.data());
}

struct Matches {
  std::uint64_t count = 0;
  std::vector<std::uint64_t> lines;
};

Matches count_matches(std::string_view text, std::string_view what) {
  Matches matches;
  std::uint64_t line = 1;
  std::size_t counted = 0;
  for (std::size_t at = find_text(text, what, 0); at != std::string_view::npos;
       at = find_text(text, what, at + what.size())) {
    ++matches.count;
    if (matches.lines.size() >= kLinesTold) continue;
    line += static_cast<std::uint64_t>(
        std::count(text.begin() + static_cast<std::ptrdiff_t>(counted),
                   text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    counted = at;
    matches.lines.push_back(line);
  }
  return matches;
}

std::string in_words(const std::vector<std::uint64_t>& lines) {
  constexpr std::size_t kShown = 10;
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), kShown); ++i) {
    text += (i ? ", " : "") + std::to_string(lines[i]);
  }
  return lines.size() > kShown ? text + ", …" : text;
}

void check_matches(const Matches& matches, const Edit& edit) {
  if (matches.count == 0) {
    throw EditError{FileProblem::no_match, "The text to replace is not in the file", 0, {}};
  }
  if (matches.count == 1 || edit.all) return;
  throw EditError{FileProblem::ambiguous,
                  "The text to replace is in the file " + std::to_string(matches.count) +
                      " times, on lines " + in_words(matches.lines) +
                      ": give more of what is around it, or ask to replace all",
                  matches.count, matches.lines};
}

awaitable<std::string> read_all(OpenFile& file) {
  std::string text(file.info().size.count, '\0');
  std::size_t have = 0;
  const auto executor = co_await asio::this_coro::executor;
  while (have < text.size()) {
    const std::span<char> room{text.data() + have, std::min(kPiece, text.size() - have)};
    const std::size_t got = co_await file.read(have, room);
    if (got == 0) break;
    have += got;
    co_await asio::post(executor, asio::use_awaitable);
  }
  text.resize(have);
  co_return text;
}

// Writes in good pieces what comes in small ones.
class Buffered {
 public:
  explicit Buffered(NewFile& file) : file_(file) {}
  awaitable<void> add(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::size_t size = std::min(bytes.size(), kPiece - waiting_.size());
      waiting_.append(bytes.substr(0, size));
      bytes.remove_prefix(size);
      if (waiting_.size() == kPiece) co_await flush();
    }
  }
  awaitable<void> flush() {
    if (!waiting_.empty()) co_await file_.write(waiting_);
    waiting_.clear();
  }

 private:
  NewFile& file_;
  std::string waiting_;
};

awaitable<void> write_edited(NewFile& file, std::string_view text, const Edit& edit) {
  Buffered out{file};
  std::size_t from = 0;
  for (std::size_t at = find_text(text, edit.from, 0); at != std::string_view::npos;
       at = find_text(text, edit.from, from)) {
    const std::string_view before = text.substr(from, at - from);
    co_await out.add(before);
    co_await out.add(edit.to);
    from = at + edit.from.size();
  }
  const std::string_view rest = text.substr(from);
  co_await out.add(rest);
  co_await out.flush();
}

}  // namespace

void LimitedFile::check(Bytes size) const {
  if (size > limits_.file) {
    throw LimitError{FileProblem::too_large, "File size exceeds maximum allowed size", limits_,
                     used_, size};
  }
  if (used_.bytes + size > limits_.workspace) {
    throw LimitError{FileProblem::full, "Workspace size limit exceeded", limits_, used_, size};
  }
}

// The disk may be full before the sum of all sizes is: to a client it is the same.
LimitError LimitedFile::full(const FileError& error) const {
  if (error.problem() != FileProblem::full) throw error;
  return {FileProblem::full, "Workspace size limit exceeded", limits_, used_,
          std::max(size_, expected_)};
}

awaitable<void> LimitedFile::begin(Files& files, Bytes expected) {
  check(expected);  // the answer comes before the body does
  expected_ = expected;
  files_ = &files;
  std::optional<FileError> failure;
  try {
    file_ = co_await files.create();
  } catch (const FileError& error) {
    failure = error;
  }
  if (failure) used_ = co_await files.usage();
  if (failure) throw full(*failure);
  used_ = file_->used();
  if (used_.files >= limits_.count) {
    throw LimitError{FileProblem::too_many, "Maximum file count exceeded", limits_, used_, {}};
  }
  check(expected);
}

awaitable<void> LimitedFile::store(std::string_view bytes) {
  check(size_);
  try {
    co_await file_->write(bytes);
  } catch (const FileError& error) {
    throw full(error);
  }
}

awaitable<void> LimitedFile::write(std::string_view bytes) {
  size_ = size_ + Bytes{bytes.size()};
  std::exception_ptr refusal;
  try {
    co_await store(bytes);
  } catch (const LimitError&) {
    refusal = std::current_exception();
  }
  if (!refusal) co_return;
  co_await file_->drop();
  std::rethrow_exception(refusal);
}

awaitable<Named> LimitedFile::commit(std::string path, Naming naming) {
  naming.most = limits_.file;
  const Turn turn = co_await Turn::take(*files_, path);
  try {
    co_return co_await file_->commit_as(std::move(path), std::move(naming));
  } catch (const FileError& error) {
    throw full(error);
  }
}

awaitable<Edited> edit_file(Files& files, std::string path, Edit edit, FileLimits limits) {
  if (edit.from.empty()) throw Error{Code::invalid, "The text to replace is empty"};
  if (edit.from == edit.to) throw Error{Code::invalid, "The new text is the old one"};
  const Turn turn = co_await Turn::take(files, path);
  const std::unique_ptr<OpenFile> file = co_await files.open(path);
  const Bytes size = file->info().size;
  if (size > kMaxEdited) {
    throw LimitError{
        FileProblem::too_large, "Files above 10 MiB can't be edited", limits, {}, size};
  }
  const std::string text = co_await read_all(*file);
  Matches matches = count_matches(text, edit.from);
  check_matches(matches, edit);
  const Bytes after{text.size() - matches.count * edit.from.size() +
                    matches.count * edit.to.size()};
  const std::unique_ptr<NewFile> replacement = co_await files.create();
  const Usage used = replacement->used();
  if (after > limits.file) {
    throw LimitError{FileProblem::too_large, "File size exceeds maximum allowed size", limits, used,
                     after};
  }
  if (after > size && used.bytes + after > limits.workspace + size) {
    throw LimitError{FileProblem::full, "Workspace size limit exceeded", limits, used, after};
  }
  co_await write_edited(*replacement, text, edit);
  Naming naming;
  naming.replaces = file->info().version;
  const Named named = co_await replacement->commit_as(std::move(path), std::move(naming));
  co_return Edited{named.info, matches.count, std::move(matches.lines)};
}

}  // namespace tb::sandbox
