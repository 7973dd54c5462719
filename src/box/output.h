// SPDX-License-Identifier: Apache-2.0
// What a command printed: moved from the guest's pipes into files without passing through us, so
// that a server that dies loses nothing; read from there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/fd.h"
#include "sandbox/sandbox.h"

namespace tb::box {

using sandbox::Captured;
using sandbox::FilePart;
using sandbox::OutputLimits;
using sandbox::Stream;

// The line that stands for bytes that an answer leaves out.
std::string gap_line(std::uint64_t bytes);

// An empty file in a directory of output, made ahead: the first stream that needs one takes it.
// Where many files were deleted, ext4 may take a millisecond to find a place for a new one.
std::string spare_file(const std::string& dir);

// Whether an earlier server may have left something of a process: then it is gone on with.
enum class Earlier { none, possible };

// One stream: a pipe, or a terminal, that ends in a file.
class StreamFile {
 public:
  StreamFile(std::string path, const OutputLimits& limits, Earlier earlier);

  // The read end of the pipe; non-blocking from now on.
  void open_pipe(os::Fd pipe);
  // A terminal's master, and both ends of a pipe that is not ours alone: there may be bytes in it.
  void open_terminal(os::Fd master, os::Fd pipe, os::Fd relay);
  // It comes by append().
  void open_told() { at_end_ = false; }
  // Bytes that begin at `offset`; what is known already is left out.
  void append(std::uint64_t offset, std::string_view bytes);
  void end() { at_end_ = true; }
  // What to wait for.
  const os::Fd& source() const { return terminal_ ? terminal_ : pipe_; }
  const os::Fd& terminal() const { return terminal_; }
  bool at_end() const { return at_end_; }
  // Moves what is in the pipe, but not for ever when it is filled as fast: what fits into the
  // largest pipe. Returns how many bytes came.
  std::uint64_t drain();
  // Reads what is in the pipe and leaves it there, for drain(): files take longer than who waits
  // for an answer should have to. False: it is not worth it, or can't be done.
  bool peek();
  bool peeked() const { return !peeked_.empty(); }
  void forget_peeked();
  // Once nobody watches it any more.
  void close_pipe() {
    pipe_.reset();
    terminal_.reset();
    relay_.reset();
  }
  void abandon() {
    at_end_ = true;
    close_pipe();
  }
  // It is opened again when it is needed: an idle session should hold no descriptor of it.
  void close_file() { file_.reset(); }

  std::uint64_t total() const { return total_; }
  std::uint64_t stored() const { return stored_; }
  bool on_disk() const { return on_disk_; }
  // Bytes that can be read from the first one on.
  std::uint64_t readable() const { return stored_ + peeked_.size(); }
  std::string read(std::uint64_t offset, std::size_t limit) const;
  // Empty when that is in no file, or few bytes.
  std::optional<FilePart> find(std::uint64_t offset, std::size_t limit) const;
  // `offset`, or where what is kept goes on behind it.
  std::uint64_t next_readable(std::uint64_t offset) const;
  const std::string& tail() const { return tail_; }
  Captured captured() const;

 private:
  void look_for_earlier();
  bool open_file();
  std::shared_ptr<const os::Fd> opened() const;
  bool copy_from_pipe(std::size_t size);
  void widen_pipe();
  ssize_t move_to_file();
  ssize_t pass_by();
  void keep_newest(std::string_view bytes);
  std::string total_path() const { return path_ + ".total"; }
  void save_total();
  bool feed();

  std::string path_;
  OutputLimits limits_;
  os::Fd pipe_;
  os::Fd terminal_;
  os::Fd relay_;  // the write end of pipe_, for what comes from the terminal
  bool at_end_ = true;
  bool widened_ = false;
  bool on_disk_ = false;                // there are files of it
  std::shared_ptr<const os::Fd> file_;  // shared with who sends a part of it
  std::uint64_t stored_ = 0;            // bytes in the file
  std::uint64_t total_ = 0;             // bytes that came
  std::string tail_;                    // the newest bytes beyond the file's limit
  std::string peeked_;                  // bytes that are in the pipe, and in no file yet
};

// Both streams of a process, and in which order their bytes arrived.
class Output {
 public:
  // `path` without ending.
  Output(const std::string& path, const OutputLimits& limits, Earlier earlier = Earlier::possible);

  void open_pipes(os::Fd out, os::Fd err);
  // It has one stream then.
  void open_terminal(os::Fd master, os::Fd pipe, os::Fd relay);
  StreamFile& stream(Stream which) { return which == Stream::err ? err_ : out_; }
  // Both come by append(), or one of a terminal.
  void open_told(bool terminal);
  void append(Stream which, std::uint64_t offset, std::string_view bytes);
  // Moves what has arrived. Out before err, when both have.
  void drain();
  // The same at a process's end, but leaves files for later if that can be: then drain() is due.
  void drain_soon();
  bool peeked() const { return out_.peeked() || err_.peeked(); }
  bool at_end() const { return out_.at_end() && err_.at_end(); }
  bool at_end(Stream which) const {
    return (which == Stream::err || out_.at_end()) && (which == Stream::out || err_.at_end());
  }
  // The same until nothing more is there, or it never ends.
  void drain_all();
  // Both streams count as ended.
  void abandon() {
    out_.abandon();
    err_.abandon();
  }
  void close_files() {
    out_.close_file();
    err_.close_file();
  }

  std::uint64_t total(Stream which) const;
  std::uint64_t stored() const { return out_.stored() + err_.stored(); }
  bool on_disk() const { return out_.on_disk() || err_.on_disk(); }
  std::string read(Stream which, std::uint64_t offset, std::size_t limit) const;
  std::optional<FilePart> find(Stream which, std::uint64_t offset, std::size_t limit) const;
  std::uint64_t next_readable(Stream which, std::uint64_t offset) const;
  Captured captured(Stream which) const;
  static void remove_files(const std::string& path);

 private:
  struct Segment {
    std::uint64_t bytes;
    bool err;
  };
  void drain(StreamFile& file, bool err);
  void note(std::uint64_t bytes, bool err);
  void shorten(std::uint64_t bytes, bool err);
  void load_order();
  void save_order();
  std::string read_all(std::uint64_t offset, std::size_t limit) const;

  std::string path_;
  OutputLimits limits_;
  StreamFile out_;
  StreamFile err_;
  std::vector<Segment> order_;
  std::size_t saved_ = 0;  // segments that stand in the file
};

}  // namespace tb::box
