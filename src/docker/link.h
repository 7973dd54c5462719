// SPDX-License-Identifier: Apache-2.0
// A carrier's stream as the engine gives it: frames out of the pieces in which it wraps what the
// carrier prints, and frames into it.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/async.h"
#include "docker/engine.h"
#include "guest/carrier_wire.h"

namespace tb::docker {

// The engine's pieces: which stream, three zeros, the length in big endian, bytes.
class Pieces {
 public:
  // What of stdout is in `bytes`, which follow those of the last call. Stderr is kept apart.
  std::string take(std::string_view bytes);
  // The newest of it: why the program could not run.
  const std::string& errors() const { return errors_; }
  bool broken() const { return broken_; }

 private:
  std::string head_;
  std::uint32_t left_ = 0;
  bool to_errors_ = false;
  bool broken_ = false;
  std::string errors_;
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  using OnFrame = std::function<void(guest::carrier::Kind, std::string_view payload)>;
  // With `direct`, a socket of the carrier's own, the other one is only kept.
  Link(asio::any_io_executor executor, Attached attached, os::Fd direct = {});

  // Frames as they come, until the stream ends; `after` is called when there is none left for now.
  // Returns why it ended, as far as the program said.
  awaitable<std::string> run(OnFrame on_frame, std::function<void()> after);
  // Never waits; what is sent in one turn of the loop goes as one. False: so much waits that the
  // other side must be stuck.
  bool send(guest::carrier::Kind kind, std::string_view payload);
  void close();

 private:
  bool take(std::string_view bytes, const OnFrame& on_frame);
  void flush();
  void flush_later();

  asio::posix::stream_descriptor socket_;
  os::Fd kept_;
  bool direct_;
  std::string rest_;
  Pieces pieces_;
  guest::carrier::Frames frames_;
  std::string out_;
  std::size_t at_ = 0;     // of it that is gone
  bool flushing_ = false;  // it will be done
};

}  // namespace tb::docker
