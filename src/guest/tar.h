// SPDX-License-Identifier: Apache-2.0
// Tar, read and written as a stream: ustar, pax and GNU's long names. What is read is not trusted,
// and no exceptions are thrown.
#pragma once

#include <sys/types.h>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tb::guest::tar {

constexpr std::size_t kBlock = 512;
constexpr std::size_t kMaxPath = 4095;
constexpr std::uint64_t kMaxExtra = 64 << 10;        // bytes of a pax header or a long name
constexpr std::uint64_t kMaxHeaders = 2000000;       // in one archive
constexpr std::uint64_t kMaxTrailing = 64ull << 20;  // bytes behind the end that are put up with

struct Entry {
  enum class Kind { file, directory, link, hard_link } kind = Kind::file;
  std::string path;    // relative, without . and .. parts or a slash at the end; empty: the top
  std::string target;  // of a link: any text; of a hard link: as `path`
  std::uint64_t size = 0;
  unsigned mode = 0644;       // permissions only
  std::int64_t modified = 0;  // seconds since 1970
};

// More bytes: how many, 0 at the end, -1 when they can't be had.
using Source = std::function<ssize_t(char* to, std::size_t size)>;

class Reader {
 public:
  enum class Result { entry, end, bad };
  explicit Reader(Source source) : source_(std::move(source)) {}
  // The next entry; what was not read of the one before is skipped.
  Result next(Entry& to);
  // Bytes of the entry's file: 0 at its end, -1 when the archive is cut there.
  ssize_t read(char* to, std::size_t size);
  // Of `bad`: what is wrong, and with which entry.
  const std::string& problem() const { return problem_; }

 private:
  struct Extra {  // from the headers in front of an entry
    std::string path;
    std::string target;
    std::string sparse;
    bool has_size = false;
    std::uint64_t size = 0;
    bool has_modified = false;
    std::int64_t modified = 0;
  };
  bool fail(std::string what);
  bool fill(char* to, std::size_t size, bool may_end, bool& ended);
  bool skip_rest();
  bool read_header(char* block, bool& end);
  bool read_extra(char kind, std::uint64_t size, Extra& to);
  bool read_records(std::string_view text, Extra& to);
  bool make_entry(const char* block, const Extra& extra, Entry& to);
  bool clean(std::string raw, std::string& to);

  Source source_;
  std::uint64_t left_ = 0;     // bytes of the entry's file
  std::uint64_t padding_ = 0;  // behind them
  std::uint64_t headers_ = 0;
  std::string name_;  // of the entry, for problems
  std::string problem_;
};

// All that stands in front of the entry's file.
std::string make_header(const Entry& entry);
// What fills its last block.
std::size_t padding_of(std::uint64_t size);

}  // namespace tb::guest::tar
