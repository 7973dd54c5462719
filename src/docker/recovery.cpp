// SPDX-License-Identifier: Apache-2.0
// What an earlier server left with the engine: containers, files, and what is neither.
#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "docker/container.h"
#include "docker/provider.h"

namespace tb::docker {
namespace {

std::string filters_of(const std::string& tag) {
  const json::object filters{{"label", json::array{std::string{kTagLabel} + "=" + tag}}};
  return "filters=" + escape(json::serialize(filters));
}

std::string text_at(const json::value& from, const char* path) {
  boost::system::error_code ignored;
  const json::value* found = from.find_pointer(path, ignored);
  return found && found->is_string() ? std::string{found->as_string()} : std::string{};
}

}  // namespace

awaitable<std::map<std::string, bool>> DockerProvider::containers() {
  const json::value list =
      co_await engine_.call("GET", "/containers/json?all=1&" + filters_of(records_.tag()));
  std::map<std::string, bool> found;
  if (!list.is_array()) co_return found;
  for (const json::value& one : list.as_array()) {
    const json::object* labels = one.as_object().at("Labels").if_object();
    const json::value* id = labels ? labels->if_contains(kIdLabel) : nullptr;
    if (id && id->is_string()) {
      found[std::string{id->as_string()}] = text_at(one, "/State") == "running";
    }
  }
  co_return found;
}

awaitable<std::vector<std::string>> DockerProvider::workspaces() {
  const json::value answer = co_await engine_.call("GET", "/volumes?" + filters_of(records_.tag()));
  std::vector<std::string> found;
  boost::system::error_code ignored;
  const json::value* list = answer.find_pointer("/Volumes", ignored);
  if (!list || !list->is_array()) co_return found;
  for (const json::value& one : list->as_array()) {
    const json::value* labels = one.as_object().if_contains("Labels");
    const json::object* object = labels ? labels->if_object() : nullptr;
    const json::value* id = object ? object->if_contains(kIdLabel) : nullptr;
    if (id && id->is_string()) found.emplace_back(id->as_string());
  }
  co_return found;
}

// Output of sandboxes that ended while no server was there.
void DockerProvider::remove_stray_output(const std::vector<sandbox::Found>& known) const {
  for (const auto& entry : std::filesystem::directory_iterator{output_dir_}) {
    const std::string id = entry.path().filename();
    const auto same = [&](const sandbox::Found& found) { return found.id == id; };
    if (std::none_of(known.begin(), known.end(), same)) os::remove_tree(entry.path());
  }
}

// What has a record and either a container or files. All else that is ours goes.
awaitable<std::vector<sandbox::Found>> DockerProvider::list() {
  const std::map<std::string, box::Record> records = records_.all();
  std::map<std::string, bool> boxes;
  std::vector<std::string> kept;
  try {
    boxes = co_await containers();
    kept = co_await workspaces();
  } catch (const Error& error) {
    // It may be there again later: until then nothing is known but that nothing may be dropped.
    log(LogLevel::error, "docker_unusable", {{"error", error.what()}});
    std::vector<sandbox::Found> silent;
    for (const auto& [id, record] : records) silent.push_back({id, record.label, false});
    co_return silent;
  }
  std::vector<sandbox::Found> found;
  std::vector<std::string> strays;
  const auto now = std::chrono::system_clock::now();
  for (const std::string& id : kept) {
    const auto record = records.find(id);
    const auto box = boxes.find(id);
    const bool alive = box != boxes.end() && box->second;
    const bool known = record != records.end();
    const bool expired =
        known && record->second.idle.count() > 0 && now - record->second.used > record->second.idle;
    if (!known || expired || (!alive && record->second.label.empty())) {
      strays.push_back(id);
      continue;
    }
    found.push_back({id, record->second.label, alive});
    const auto used = std::chrono::duration_cast<Milliseconds>(now - record->second.used);
    watch(id, record->second.idle, used);
  }
  for (const auto& [id, alive] : boxes) {
    const auto same = [&](const std::string& volume) { return volume == id; };
    if (std::none_of(kept.begin(), kept.end(), same)) strays.push_back(id);
  }
  for (const auto& [id, record] : records) {
    const auto same = [&](const sandbox::Found& one) { return one.id == id; };
    if (std::none_of(found.begin(), found.end(), same)) records_.remove(id);
  }
  for (const std::string& id : strays) co_await remove(id, true);
  remove_stray_output(found);
  co_return found;
}

}  // namespace tb::docker
