// SPDX-License-Identifier: Apache-2.0
#include "guest/gzip.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tb::guest {
namespace {

constexpr int kGzip = 15 + 16;  // window bits, and gzip's header around the stream
constexpr int kFast = 1;        // the sandbox's CPU is scarce

unsigned char* bytes_of(char* text) { return reinterpret_cast<unsigned char*>(text); }

}  // namespace

PackedReader::~PackedReader() {
  if (packed_) ::inflateEnd(&stream_);
}

// More bytes behind those that are there. False: there are none.
bool PackedReader::refill() {
  if (at_ > 0) std::memmove(buffer_.data(), buffer_.data() + at_, have_ - at_);
  have_ -= at_;
  at_ = 0;
  for (;;) {
    const ssize_t got = ::read(fd_, buffer_.data() + have_, buffer_.size() - have_);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) failed_ = true;
    if (got <= 0) return false;
    have_ += static_cast<std::size_t>(got);
    return true;
  }
}

ssize_t PackedReader::read(char* to, std::size_t size) {
  if (!begun_) {
    begun_ = true;
    while (have_ < 2 && refill()) {
    }
    packed_ = have_ >= 2 && buffer_[0] == '\x1f' && buffer_[1] == '\x8b';
    if (packed_ && ::inflateInit2(&stream_, kGzip) != Z_OK) packed_ = false, failed_ = true;
    in_member_ = packed_;
  }
  if (failed_) return -1;
  if (packed_) return inflate_some(to, size);
  if (at_ == have_ && !refill()) return failed_ ? -1 : 0;
  const std::size_t count = std::min(size, have_ - at_);
  std::memcpy(to, buffer_.data() + at_, count);
  at_ += count;
  return static_cast<ssize_t>(count);
}

ssize_t PackedReader::inflate_some(char* to, std::size_t size) {
  stream_.next_out = bytes_of(to);
  stream_.avail_out = static_cast<unsigned>(size);
  while (stream_.avail_out == size) {
    if (at_ == have_ && !refill()) return in_member_ || failed_ ? -1 : 0;
    if (!in_member_) {  // another one, or zeros that fill up a tape
      if (buffer_[at_] == '\0') {
        ++at_;
        continue;
      }
      if (::inflateReset(&stream_) != Z_OK) return -1;
      in_member_ = true;
    }
    stream_.next_in = bytes_of(buffer_.data() + at_);
    stream_.avail_in = static_cast<unsigned>(have_ - at_);
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    at_ = have_ - stream_.avail_in;
    if (result == Z_STREAM_END) in_member_ = false;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      failed_ = true;
      return -1;
    }
  }
  return static_cast<ssize_t>(size - stream_.avail_out);
}

PackedWriter::PackedWriter(int fd, bool packs) : fd_(fd), packs_(packs), buffer_(64 << 10) {
  if (packs_) ::deflateInit2(&stream_, kFast, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY);
}

PackedWriter::~PackedWriter() {
  if (packs_) ::deflateEnd(&stream_);
}

bool PackedWriter::write(std::string_view bytes) {
  return packs_ ? deflate_some(bytes, Z_NO_FLUSH) : write_all(bytes);
}

bool PackedWriter::finish() { return !packs_ || deflate_some({}, Z_FINISH); }

bool PackedWriter::deflate_some(std::string_view bytes, int flush) {
  stream_.next_in = bytes_of(const_cast<char*>(bytes.data()));
  stream_.avail_in = static_cast<unsigned>(bytes.size());
  do {
    stream_.next_out = bytes_of(buffer_.data());
    stream_.avail_out = static_cast<unsigned>(buffer_.size());
    const int result = ::deflate(&stream_, flush);
    if (result == Z_STREAM_ERROR) return false;
    if (!write_all({buffer_.data(), buffer_.size() - stream_.avail_out})) return false;
  } while (stream_.avail_out == 0);
  return true;
}

bool PackedWriter::write_all(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

}  // namespace tb::guest
