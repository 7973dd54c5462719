// SPDX-License-Identifier: Apache-2.0
// What we ask of a Docker Engine, over its API on a unix socket; no program of its in between.
#pragma once

#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/async.h"
#include "http/client.h"
#include "os/fd.h"

namespace tb::docker {

namespace json = boost::json;

struct EngineSettings {
  std::string socket = "/var/run/docker.sock";
  std::string image = "sandbox-secure:latest";
  std::string network = "none";
  std::string runtime;  // empty: the engine's default
};

// A stream to a program in a container.
struct Attached {
  os::Fd socket;
  std::string rest;  // that has come already
};

class Engine {
 public:
  Engine(asio::any_io_executor executor, EngineSettings settings);
  const EngineSettings& settings() const { return settings_; }

  // Throws Error{unavailable} that says what is wrong with the engine and what to do, unless it can
  // be used; {invalid} for an image that is not there and not the settings'.
  awaitable<void> check_usable(std::string image);

  // Throws Error with the engine's own words; {not_found}: there is no such thing.
  awaitable<json::value> call(std::string method, std::string target, json::value body = nullptr);
  // The status and the body, whatever they are.
  awaitable<http::Response> ask(std::string method, std::string target,
                                std::vector<http::Header> headers, std::string body);

  // The container's id in the engine. `description` is the body of POST /containers/create.
  awaitable<std::string> create_container(std::string name, json::object description);
  awaitable<void> start_container(std::string id);
  // Ends and removes it, and waits until it is gone; fine if there is none.
  awaitable<void> remove_container(std::string id);
  awaitable<bool> is_running(std::string id);
  // Puts a tar file's content below `path`.
  awaitable<void> put_archive(std::string id, std::string path, std::string tar);
  // Of a file or a directory in a container; absent: there is none.
  struct FileFacts {
    std::uint64_t size = 0;
    std::uint64_t uid = 0;
  };
  awaitable<std::optional<FileFacts>> file_facts(std::string id, std::string path);
  awaitable<void> remove_volume(std::string name);
  // Starts a program in it whose standard streams are ours.
  awaitable<Attached> attach_exec(std::string id, std::vector<std::string> argv, std::string user);

 private:
  EngineSettings settings_;
  http::Client client_;
};

bool is_image_name(std::string_view name);

// For a query: everything but letters, digits and -._~ as %XX.
std::string escape(std::string_view text);

// One entry of a tar file (ustar), and the two empty blocks that end it.
struct TarEntry {
  std::string name;  // a directory's ends with a slash
  unsigned mode = 0755;
  unsigned uid = 0;
  unsigned gid = 0;
  std::string_view content;
};
std::string make_tar(const std::vector<TarEntry>& entries);

}  // namespace tb::docker
