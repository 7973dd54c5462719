// SPDX-License-Identifier: Apache-2.0
#include "docker/files.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tb::docker {
namespace {

using guest::carrier::FileState;
using guest::carrier::Kind;

constexpr auto kAnswer = 20s;  // for one step of the carrier, in a sandbox with little CPU
// What helpers say comes whether or not somebody listens; no list of theirs is as long.
constexpr std::size_t kMaxInbox = 64 << 20;
constexpr std::size_t kEach = 64;

// Our end of a channel; whoever holds it last closes it.
class Speaker {
 public:
  Speaker(std::shared_ptr<FileChannel> channel, std::uint32_t id,
          std::weak_ptr<FileChannels::Send> send)
      : channel_(std::move(channel)), id_(id), send_(std::move(send)) {
    say(Kind::file_open, {});
  }
  ~Speaker() { say(Kind::file_close, {}); }
  Speaker(const Speaker&) = delete;
  Speaker& operator=(const Speaker&) = delete;

  void say(Kind kind, std::string_view rest) {
    const auto send = send_.lock();
    if (!send) {
      channel_->lost = true;
      return;
    }
    Writer out;
    out.u32(id_);
    (*send)(kind, out.take().append(rest));
  }

  // The next frame that came, of that kind.
  awaitable<std::string> hear(Kind kind, Milliseconds limit = kAnswer) {
    const auto channel = channel_;
    // What the helper says and what the carrier does with its files come as they happen.
    const auto first = [&] {
      return std::find_if(channel->inbox.begin(), channel->inbox.end(),
                          [&](const auto& one) { return one.kind == kind; });
    };
    const auto over = [&] {
      return channel->lost || (channel->ended && kind == Kind::file_answer);
    };
    const auto came = [&] { return first() != channel->inbox.end() || over(); };
    const bool heard = co_await channel->changed.until(came, limit);
    if (!heard)
      throw kind == Kind::file_answer ? box::HelperLink::silent() : box::HelperLink::stalled();
    const auto found = first();
    if (found == channel->inbox.end()) throw box::HelperLink::ended();
    std::string payload = std::move(found->payload);
    channel->inbox.erase(found);
    channel->bytes -= payload.size() + kEach;
    co_return payload;
  }

 private:
  std::shared_ptr<FileChannel> channel_;
  std::uint32_t id_;
  std::weak_ptr<FileChannels::Send> send_;
};

class CarriedFile : public box::HelperFile {
 public:
  CarriedFile(std::shared_ptr<Speaker> speaker, const FileState& state)
      : speaker_(std::move(speaker)) {
    state_ = {S_ISREG(state.mode), state.size, state.version};
  }

  State state() override { return state_; }

  awaitable<std::size_t> read(std::uint64_t offset, std::span<char> out) override {
    const auto speaker = speaker_;
    Writer ask;
    ask.u64(offset);
    ask.u32(static_cast<std::uint32_t>(std::min(out.size(), guest::carrier::kChunk)));
    speaker->say(Kind::file_read, ask.view());
    co_return co_await hear_bytes(*speaker, out, kAnswer);
  }

  awaitable<int> write(std::string_view bytes) override {
    const auto speaker = speaker_;
    while (!bytes.empty()) {
      const std::string_view part = bytes.substr(0, guest::carrier::kChunk);
      Writer out;
      out.bytes(part);
      speaker->say(Kind::file_write, out.view());
      const std::string payload = co_await speaker->hear(Kind::file_written);
      Reader in{payload};
      const int failed = in.i32();
      if (failed != 0) co_return failed;
      bytes.remove_prefix(part.size());
    }
    co_return 0;
  }

  awaitable<std::size_t> take(std::span<char> out) override {
    const auto speaker = speaker_;
    Writer ask;
    ask.u32(static_cast<std::uint32_t>(std::min(out.size(), guest::carrier::kChunk)));
    speaker->say(Kind::file_take, ask.view());
    co_return co_await hear_bytes(*speaker, out, box::kPipeStall);
  }

  awaitable<bool> give(std::string_view bytes) override {
    const auto speaker = speaker_;
    while (!bytes.empty()) {
      const std::string_view part = bytes.substr(0, guest::carrier::kChunk);
      Writer out;
      out.bytes(part);
      speaker->say(Kind::file_give, out.view());
      const std::string payload = co_await speaker->hear(Kind::file_written, box::kPipeStall);
      Reader in{payload};
      const int failed = in.i32();
      if (failed == EPIPE) co_return false;
      if (failed != 0) throw SystemError{failed, "write an archive"};
      bytes.remove_prefix(part.size());
    }
    co_return true;
  }

  void close() override { speaker_->say(Kind::file_shut, {}); }

 private:
  static awaitable<std::size_t> hear_bytes(Speaker& speaker, std::span<char> out,
                                           Milliseconds limit) {
    const std::string payload = co_await speaker.hear(Kind::file_data, limit);
    Reader in{payload};
    const int failed = in.i32();
    const std::string_view bytes = in.view();
    if (failed != 0 || !in.done() || bytes.size() > out.size()) {
      throw Error{Code::internal, "read a file of a sandbox"};
    }
    std::copy(bytes.begin(), bytes.end(), out.begin());
    co_return bytes.size();
  }

  std::shared_ptr<Speaker> speaker_;
  State state_;
};

class CarriedLink : public box::HelperLink {
 public:
  explicit CarriedLink(std::shared_ptr<Speaker> speaker) : speaker_(std::move(speaker)) {}

  void say(std::string packet) override {
    Writer out;
    out.bytes(packet);
    speaker_->say(Kind::file_ask, out.view());
  }

  awaitable<Heard> hear(Milliseconds limit) override {
    const auto speaker = speaker_;
    const std::string payload = co_await speaker->hear(Kind::file_answer, limit);
    Reader in{payload};
    const bool with_file = in.u8() != 0;
    const FileState state = FileState::decode(in);
    Heard heard;
    heard.packet = in.bytes();
    if (!in.done()) throw ended();
    if (with_file) heard.file = std::make_unique<CarriedFile>(speaker, state);
    co_return heard;
  }

 private:
  std::shared_ptr<Speaker> speaker_;
};

}  // namespace

std::unique_ptr<box::HelperLink> FileChannels::open() {
  const std::uint32_t id = next_++;
  auto channel = std::make_shared<FileChannel>(executor_);
  std::erase_if(channels_, [](const auto& entry) { return entry.second.expired(); });
  channels_[id] = channel;
  return std::make_unique<CarriedLink>(std::make_shared<Speaker>(std::move(channel), id, send_));
}

bool FileChannels::receive(Kind kind, std::string_view payload) {
  if (kind < Kind::file_answer || kind > Kind::file_ended || payload.size() < 4) return false;
  Reader in{payload};
  const auto found = channels_.find(in.u32());
  const auto channel = found == channels_.end() ? nullptr : found->second.lock();
  if (!channel) return true;
  if (kind == Kind::file_ended) {
    channel->ended = true;
  } else if (channel->bytes + payload.size() > kMaxInbox) {
    channel->lost = true;
    channel->inbox.clear();
    channel->bytes = 0;
    channels_.erase(found);
  } else {
    channel->inbox.push_back({kind, std::string{payload.substr(4)}});
    channel->bytes += payload.size() - 4 + kEach;
  }
  channel->changed.notify_all();
  return true;
}

void FileChannels::interrupted() {
  for (const auto& [id, weak] : channels_) {
    const auto channel = weak.lock();
    if (!channel) continue;
    channel->lost = true;
    channel->changed.notify_all();
  }
  channels_.clear();
}

}  // namespace tb::docker
