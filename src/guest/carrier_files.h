// SPDX-License-Identifier: Apache-2.0
// The file helpers that a carrier's server talks to, and the files that they opened for it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "guest/carrier_wire.h"

namespace tb::guest {

class CarrierFiles {
 public:
  // `pass` hands a socket to PID 1 for a helper, `watch` asks for on_ready() on these events of a
  // descriptor, 0 for none any more, and `send` is for frames to the server.
  struct Doors {
    std::function<void(int socket)> pass;
    std::function<void(int fd, unsigned events)> watch;
    std::function<void(carrier::Kind, std::string_view payload)> send;
  };
  explicit CarrierFiles(Doors doors) : doors_(std::move(doors)) {}

  // A frame of the server's; false: not one for us.
  bool obey(carrier::Kind kind, Reader& in);
  // False: not one of ours.
  bool on_ready(int fd);

 private:
  struct Channel {
    int socket = -1;
    int file = -1;
    std::size_t wanted = 0;  // of a pipe: how many bytes the server waits for
    std::string given;       // for a pipe, which has no room for it yet
    bool waits = false;      // for the pipe
  };
  void open(std::uint32_t id);
  void ask(std::uint32_t id, std::string_view request);
  void read(std::uint32_t id, std::uint64_t offset, std::uint32_t size);
  void write(std::uint32_t id, std::string_view bytes);
  void take(std::uint32_t id, Channel& channel);
  void give(std::uint32_t id, Channel& channel);
  void wait_for_pipe(Channel& channel, unsigned events);
  void shut(Channel& channel);
  void tell_written(std::uint32_t id, int failed);
  void answer(std::uint32_t id, Channel& channel);
  void end(std::uint32_t id);

  Doors doors_;
  std::map<std::uint32_t, Channel> channels_;
};

}  // namespace tb::guest
