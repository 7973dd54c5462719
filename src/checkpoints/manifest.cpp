// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/manifest.h"

#include <boost/json.hpp>
#include <charconv>
#include <cstdio>

#include "base/hex.h"
#include "base/sha256.h"

namespace tb::checkpoints {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

constexpr std::string_view kManifest = "-manifest";

std::string digits(std::uint64_t number, int width) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*llu", width, static_cast<unsigned long long>(number));
  return text;
}

std::uint64_t number_in(const json::object& object, const char* name) {
  const json::value* value = object.if_contains(name);
  if (!value) return 0;
  if (value->is_uint64()) return value->get_uint64();
  return value->is_int64() && value->get_int64() > 0
             ? static_cast<std::uint64_t>(value->get_int64())
             : 0;
}

// Names of files are bytes, not text.
std::optional<std::string> path_in(const json::value& value) {
  return value.is_string() ? from_base64(value.get_string()) : std::nullopt;
}

std::optional<Layer> read_layer(const json::value& value) {
  const json::object* object = value.if_object();
  const json::value* place = object ? object->if_contains("place") : nullptr;
  if (!place) return std::nullopt;
  std::optional<std::string> path = path_in(*place);
  if (!path) return std::nullopt;
  return Layer{number_in(*object, "number"), number_in(*object, "parts"),
               number_in(*object, "bytes"), std::move(*path)};
}

}  // namespace

std::string to_text(const Manifest& manifest) {
  json::array layers;
  for (const Layer& layer : manifest.layers) {
    layers.push_back({{"number", layer.number},
                      {"parts", layer.parts},
                      {"bytes", layer.bytes},
                      {"place", base64(layer.place)}});
  }
  json::array removed;
  for (const std::string& path : manifest.removed) removed.push_back(json::value(base64(path)));
  const auto kept = std::chrono::duration_cast<milliseconds>(manifest.kept_at.time_since_epoch());
  json::object body{{"version", 1}, {"kept_at_ms", kept.count()}};
  body["layers"] = std::move(layers);
  body["removed"] = std::move(removed);
  return json::serialize(body);
}

std::optional<Manifest> from_text(std::string_view text) {
  json::error_code error;
  const json::value value = json::parse(json::string_view{text.data(), text.size()}, error);
  const json::object* object = error ? nullptr : value.if_object();
  if (!object || number_in(*object, "version") != 1) return std::nullopt;
  const json::value* layers = object->if_contains("layers");
  const json::value* removed = object->if_contains("removed");
  if (!layers || !layers->is_array() || !removed || !removed->is_array()) return std::nullopt;
  Manifest manifest;
  manifest.kept_at += milliseconds{number_in(*object, "kept_at_ms")};
  for (const json::value& one : layers->get_array()) {
    std::optional<Layer> layer = read_layer(one);
    if (!layer) return std::nullopt;
    manifest.layers.push_back(std::move(*layer));
  }
  for (const json::value& one : removed->get_array()) {
    std::optional<std::string> path = path_in(one);
    if (!path) return std::nullopt;
    manifest.removed.insert(std::move(*path));
  }
  return manifest;
}

std::string thread_prefix(std::string_view thread) { return to_hex(sha256(thread)); }

std::string generation_prefix(std::string_view thread, std::uint64_t generation) {
  return thread_prefix(thread) + "/" + digits(generation, 20);
}

std::string manifest_name(std::uint64_t number) {
  return digits(number, 10) + std::string{kManifest};
}

std::string part_name(std::uint64_t number, std::uint64_t part) {
  return digits(number, 10) + "-" + digits(part, 6);
}

bool is_manifest(std::string_view key) { return key.ends_with(kManifest); }

std::optional<std::uint64_t> generation_of(std::string_view key) {
  const std::size_t slash = key.find('/');
  if (slash == key.npos) return std::nullopt;
  key.remove_prefix(slash + 1);
  key = key.substr(0, key.find('/'));
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  if (error != std::errc{} || end != key.data() + key.size()) return std::nullopt;
  return number;
}

}  // namespace tb::checkpoints
