// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_stream_client.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/error.h"

namespace tb::cli {
namespace {

constexpr std::size_t kBuffer = 256 << 10;
constexpr std::string_view kGoodEnd = "\"exit_code\":0,";

// Takes a WebSocket apart, wherever its bytes are cut.
class Frames {
 public:
  explicit Frames(const TakeBytes& take) : take_(take) {}
  bool closed() const { return closed_; }
  bool good() const { return text_.find(kGoodEnd) != std::string::npos; }

  void feed(std::string_view bytes) {
    while (!bytes.empty() && !closed_) {
      if (left_ == 0) {
        head_ += bytes.front();
        bytes.remove_prefix(1);
        if (head_.size() == head_size()) begin();
        continue;
      }
      const std::string_view here = bytes.substr(0, left_);
      if (opcode_ == 2) take_(here);
      if (opcode_ == 1) text_ += here;
      left_ -= here.size();
      bytes.remove_prefix(here.size());
    }
  }

 private:
  std::uint64_t byte(std::size_t i) const { return static_cast<unsigned char>(head_[i]); }
  std::size_t head_size() const {
    if (head_.size() < 2) return 2;
    const std::uint64_t length = byte(1) & 0x7f;
    return length == 127 ? 10 : length == 126 ? 4 : 2;
  }
  void begin() {
    opcode_ = byte(0) & 0xf;
    left_ = head_.size() == 2 ? byte(1) & 0x7f : 0;
    for (std::size_t i = 2; i < head_.size(); ++i) left_ = left_ << 8 | byte(i);
    closed_ = opcode_ == 8;
    head_.clear();
  }

  const TakeBytes& take_;
  std::string head_;
  std::string text_;
  std::uint64_t left_ = 0;
  std::uint64_t opcode_ = 0;
  bool closed_ = false;
};

std::string processes(const std::string& session) {
  return "/api/sessions/" + session + "/processes";
}

// The value of a field or a header that is a number.
std::uint64_t number_after(std::string_view text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == std::string_view::npos) throw Error{Code::internal, "no " + std::string{key}};
  std::uint64_t value = 0;
  std::from_chars(text.data() + at + key.size(), text.data() + text.size(), value);
  return value;
}

std::string start_process(BenchClient& client, const std::string& session,
                          const std::string& start) {
  const std::string told = client.post(processes(session), start);
  return processes(session) + "/" + std::to_string(number_after(told, "\"process_id\":"));
}

// A body in chunks; they are not taken apart.
void read_chunks(BenchClient& client, std::string_view first, const TakeBytes& take) {
  constexpr std::string_view kLast = "\r\n0\r\n\r\n";
  constexpr std::size_t kTail = 4096;
  std::vector<char> buffer(kBuffer);
  std::string tail;
  for (std::string_view bytes = first;;) {
    take(bytes);
    tail += bytes.substr(bytes.size() - std::min(kTail, bytes.size()));
    if (tail.size() > kTail) tail.erase(0, tail.size() - kTail);
    if (tail.ends_with(kLast)) break;
    bytes = {buffer.data(), client.read_some(buffer.data(), buffer.size())};
  }
  if (tail.find(kGoodEnd) == std::string::npos) {
    throw Error{Code::internal, "a process of the benchmark failed: " + tail};
  }
}

}  // namespace

void follow_websocket(BenchClient& client, const std::string& session, const std::string& start,
                      const TakeBytes& take) {
  const std::string process = start_process(client, session, start);
  client.send("GET " + process +
              "/attach HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\n"
              "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
              "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n");
  std::string first;
  client.read_head(first, "101");
  Frames frames{take};
  std::vector<char> buffer(kBuffer);
  for (std::string_view bytes = first;;) {
    frames.feed(bytes);
    if (frames.closed()) break;
    bytes = {buffer.data(), client.read_some(buffer.data(), buffer.size())};
  }
  if (!frames.good()) throw Error{Code::internal, "a process of the benchmark failed"};
}

void follow_events(BenchClient& client, const std::string& session, const std::string& start,
                   const TakeBytes& take) {
  const std::string process = start_process(client, session, start);
  client.send("GET " + process +
              "/output HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\n\r\n");
  std::string first;
  client.read_head(first);
  read_chunks(client, first, take);
}

void follow_lines(BenchClient& client, const std::string& session, const std::string& start,
                  const TakeBytes& take) {
  const std::string more = "{\"stream\":true,\"session_id\":\"" + session + "\",";
  client.send_post("/execute", more + start.substr(1));
  std::string first;
  client.read_head(first);
  read_chunks(client, first, take);
}

void follow_pages(BenchClient& client, const std::string& session, const std::string& start,
                  const TakeBytes& take) {
  const std::string process = start_process(client, session, start);
  std::vector<char> buffer(kBuffer);
  for (std::uint64_t offset = 0;;) {
    client.send("GET " + process + "/output?stream=stdout&offset=" + std::to_string(offset) +
                " HTTP/1.1\r\nHost: bench\r\n\r\n");
    std::string rest;
    std::string head;
    const std::uint64_t length = client.read_head(rest, "200", &head);
    take(rest);
    for (std::uint64_t got = rest.size(); got < length;) {
      const std::size_t n = client.read_some(buffer.data(), buffer.size());
      take({buffer.data(), n});
      got += n;
    }
    offset += length;
    const bool over = head.find("X-Process-State: exited") != std::string::npos;
    if (over && offset == number_after(head, "X-Output-Total: ")) break;
  }
}

}  // namespace tb::cli
