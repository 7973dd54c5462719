// SPDX-License-Identifier: Apache-2.0
// registry/environments/*.yaml
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/mount_target.h"
#include "registry/items.h"

namespace tb::registry {
namespace {

using yaml::Node;

constexpr double kLongest = 7 * 24 * 3600;       // seconds
constexpr std::size_t kMaxVariables = 64 << 10;  // bytes of them all

// As Kubernetes and Docker write sizes: 512Mi, 512m, 1Gi, 1g, or plain bytes.
std::optional<Bytes> parse_size(const std::string& text) {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc{}) return std::nullopt;
  std::string unit{end, text.data() + text.size()};
  if (unit.size() == 2 && unit[1] == 'i') unit.pop_back();
  unsigned shift = 0;
  if (unit == "k" || unit == "K") shift = 10;
  if (unit == "m" || unit == "M") shift = 20;
  if (unit == "g" || unit == "G") shift = 30;
  const bool known = unit.empty() || unit == "b" || shift != 0;
  if (!known || count > (1ull << 42) >> shift) return std::nullopt;
  return Bytes{count << shift};
}

bool is_variable_name(const std::string& name) {
  const auto fine = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), fine);
}

class EnvironmentReader {
 public:
  EnvironmentReader(const yaml::Reader& reader, std::vector<Reference>& references)
      : reader_(reader), references_(references) {}

  Environment read(const Node& root) {
    reader_.fields(
        root,
        {{"name", [&](const Node& n) { to_.name = read_name(reader_, n); }},
         {"description", [&](const Node& n) { to_.description = reader_.text("description", n); }},
         {"provider", [&](const Node& n) { to_.provider = reader_.text("provider", n); }},
         {"root", [&](const Node& n) { read_root(n); }},
         {"image", [&](const Node& n) { to_.image = reader_.text("image", n); }},
         {"template", [&](const Node& n) { to_.sandbox_template = reader_.text("template", n); }},
         {"resources", [&](const Node& n) { read_resources(n); }},
         {"mounts", [&](const Node& n) { read_mounts(n); }},
         {"environment", [&](const Node& n) { read_variables(n); }},
         {"policy", [&](const Node& n) { read_policy(n); }},
         {"network", [&](const Node& n) { read_network(n); }},
         {"warm_pool",
          [&](const Node& n) {
            to_.warm_pool = reader_.whole("warm_pool", n, 0, 10'000).value_or(0);
          }},
         {"warm", [&](const Node& n) { read_warm(n); }},
         {"capabilities", [&](const Node& n) { reader_.texts("capabilities", n); }}});
    return std::move(to_);
  }

 private:
  void read_warm(const Node& node) {
    to_.warm = reader_.texts("warm", node);
    for (std::size_t i = 0; i < to_.warm.size(); ++i) {
      if (to_.warm[i] == "python" || to_.warm[i] == "javascript") continue;
      reader_.fail(node.items[i].line, "warm is a list of python and javascript");
    }
  }

  void read_root(const Node& node) {
    const std::string text = reader_.text("root", node);
    if (text == "host") {
      to_.root = text;
    } else if (text.starts_with("/")) {
      to_.root = "image:" + text;
    } else {
      reader_.fail(node.line, "root must be host, or the path of a directory or a tar file");
    }
  }

  std::optional<Bytes> size(const std::string& key, const Node& node) {
    const auto size = parse_size(reader_.text(key, node));
    if (size && *size >= 16_MiB) return size;
    reader_.fail(node.line, key + " must be a size such as 512Mi or 1Gi, and 16Mi at least");
    return std::nullopt;
  }

  std::optional<Milliseconds> seconds(const std::string& key, const Node& node, double most) {
    const auto value = reader_.number(key, node, 1, most);
    if (!value) return std::nullopt;
    return Milliseconds{std::llround(*value * 1000)};
  }

  void read_resources(const Node& node) {
    if (!reader_.is_map("resources", node)) return;
    Resources& to = to_.resources;
    reader_.fields(node,
                   {{"memory", [&](const Node& n) { to.memory = size("memory", n); }},
                    {"disk", [&](const Node& n) { to.disk = size("disk", n); }},
                    {"cpu",
                     [&](const Node& n) {
                       const auto cores = reader_.number("cpu", n, 0.01, 64);
                       if (cores)
                         to.cpu_quota = static_cast<unsigned>(std::lround(*cores * 100'000));
                     }},
                    {"pids",
                     [&](const Node& n) {
                       const auto pids = reader_.whole("pids", n, 16, 32'768);
                       if (pids) to.pids = static_cast<unsigned>(*pids);
                     }},
                    {"timeout", [&](const Node& n) { to.idle = seconds("timeout", n, kLongest); }},
                    {"command_timeout", [&](const Node& n) {
                       to.command_timeout = seconds("command_timeout", n, 86'400);
                     }}});
  }

  void read_mounts(const Node& node) {
    const std::vector<std::string> texts = reader_.texts("mounts", node);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string& text = texts[i];
      Mount mount;
      const std::size_t colon = text.find(':');
      mount.source = text.substr(0, colon);
      if (colon != text.npos) mount.target = text.substr(colon + 1);
      // Directories of the host are shared by all: only who says so lets them be written to.
      mount.read_only = mount.source.starts_with('/');
      for (const char* end : {":ro", ":rw"}) {
        if (!mount.target.ends_with(end)) continue;
        mount.target.resize(mount.target.size() - 3);
        mount.read_only = end[2] == 'o';
        break;
      }
      const bool fine = !mount.source.empty() && mount.target.starts_with("/") &&
                        mount.target.find(':') == mount.target.npos;
      if (!fine) {
        reader_.fail(node.items[i].line,
                     "a mount is written as source:/place, source:/place:ro or source:/place:rw");
      } else {
        check_mount(mount, node.items[i].line);
      }
      to_.mounts.push_back(std::move(mount));
    }
  }

  void check_mount(const Mount& mount, int line) {
    std::string problem = problem_of_target(mount.target);
    if (mount.target == "/workspace") problem = "is the session's own: choose a path below it";
    if (!problem.empty()) reader_.fail(line, "the place " + mount.target + " " + problem);
    for (const Mount& other : to_.mounts) {
      if (!targets_touch(mount.target, other.target)) continue;
      reader_.fail(line, mount.target + " and " + other.target + " are in each other");
    }
    const auto fine = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
    };
    const std::string& source = mount.source;
    const bool directory = source.starts_with('/');
    const bool name = source.size() <= 64 && source[0] != '.' && source[0] != '-' &&
                      std::all_of(source.begin(), source.end(), fine);
    if (!directory && !name) {
      reader_.fail(line, "'" + source + "' is neither a volume's name nor a path of the host");
    }
    if (directory && (source == "/" || source.find("/../") != source.npos)) {
      reader_.fail(line, "'" + source + "' can't be mounted into a sandbox");
    }
  }

  void read_variables(const Node& node) {
    if (!reader_.is_map("environment", node)) return;
    std::size_t bytes = 0;
    std::vector<std::string> seen;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      const std::string name = node.keys[i].text;
      const std::string value = reader_.text("environment: " + name, node.items[i]);
      const int line = node.keys[i].line;
      if (!is_variable_name(name)) {
        reader_.fail(line, "'" + name + "' is not a name of an environment variable");
      }
      if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
        reader_.fail(line, "'" + name + "' stands there twice");
      }
      if (value.find('\0') != value.npos) reader_.fail(line, name + " must not contain NUL");
      seen.push_back(name);
      bytes += name.size() + value.size() + 2;
      to_.variables.emplace_back(name, value);
    }
    if (bytes > kMaxVariables) reader_.fail(node.line, "environment is larger than 64 KiB");
  }

  void read_policy(const Node& node) {
    to_.policy = reader_.text("policy", node);
    references_.push_back({"policies", to_.policy, reader_.file(), node.line});
  }

  void read_network(const Node& node) {
    const std::string text = reader_.text("network", node);
    if (text != "none" && text != "internet") {
      reader_.fail(node.line, "network must be none or internet");
    }
    if (text == "internet") to_.network = Network::internet;
  }

  const yaml::Reader& reader_;
  std::vector<Reference>& references_;
  Environment to_;
};

}  // namespace

Environment read_environment(const yaml::Reader& reader, const Node& root,
                             std::vector<Reference>& references) {
  return EnvironmentReader{reader, references}.read(root);
}

}  // namespace tb::registry
