// SPDX-License-Identifier: Apache-2.0
// File helpers that a carrier talks to for us, and reads and writes for.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/async.h"
#include "box/helper.h"
#include "guest/carrier_wire.h"

namespace tb::docker {

// What came for one helper's link.
struct FileChannel {
  struct Came {
    guest::carrier::Kind kind;
    std::string payload;  // behind the channel's number
  };
  explicit FileChannel(asio::any_io_executor executor) : changed(executor) {}
  std::deque<Came> inbox;
  std::size_t bytes = 0;  // in it
  bool ended = false;     // the helper
  bool lost = false;      // the carrier, and all with it
  Signal changed;
};

class FileChannels {
 public:
  using Send = std::function<void(guest::carrier::Kind, std::string_view payload)>;
  FileChannels(asio::any_io_executor executor, Send send)
      : executor_(executor), send_(std::make_shared<Send>(std::move(send))) {}

  std::unique_ptr<box::HelperLink> open();
  // A frame that is for a channel; false: it is for somebody else.
  bool receive(guest::carrier::Kind kind, std::string_view payload);
  // The carrier is gone, and all helpers with it.
  void interrupted();

 private:
  asio::any_io_executor executor_;
  std::shared_ptr<Send> send_;  // links hold it weakly: they may outlive us
  std::uint32_t next_ = 1;
  std::map<std::uint32_t, std::weak_ptr<FileChannel>> channels_;
};

}  // namespace tb::docker
