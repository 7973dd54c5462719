// SPDX-License-Identifier: Apache-2.0
// From files to a registry.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "registry/registry.h"
#include "yaml/json.h"

// For each file its path below registry/, a NUL, its size in four bytes, and its bytes: builtin.S.
extern "C" const char tb_registry_begin[], tb_registry_end[];

namespace tb::registry {

namespace fs = std::filesystem;

class Loader {
 public:
  Registry take() { return std::move(registry_); }
  const yaml::Problems& problems() const { return problems_; }

  void load_builtin() {
    const char* at = tb_registry_begin;
    while (at < tb_registry_end) {
      const std::string path = at;
      at += path.size() + 1;
      std::uint32_t size = 0;
      std::memcpy(&size, at, sizeof size);
      at += sizeof size;
      load(path.substr(0, path.find('/')), {at, size}, "builtin " + path, "builtin");
      at += size;
    }
    from_.clear();  // these may be replaced
  }

  void load_directory(const fs::path& dir) {
    std::error_code failure;
    for (const auto& entry : fs::directory_iterator{dir, failure}) {
      const std::string name = entry.path().filename();
      const auto& kinds = Registry::kinds();
      if (!entry.is_directory() || name.starts_with('.')) continue;
      if (std::find(kinds.begin(), kinds.end(), name) == kinds.end()) {
        problems_.add(entry.path(), 0, "is none of " + yaml::listed(kinds));
      }
    }
    if (failure) return problems_.add(dir, 0, "can't be read: " + failure.message());
    for (const std::string& kind : Registry::kinds()) {
      if (fs::exists(dir / kind, failure) || failure) load_kind(dir, kind);
    }
  }

  // What names what there is not.
  void check_references() {
    for (const Reference& reference : references_) {
      const std::vector<std::string> names = *registry_.names(reference.kind);
      if (std::find(names.begin(), names.end(), reference.name) != names.end()) continue;
      problems_.add(reference.file, reference.line,
                    "'" + reference.name + "' is none of the " + reference.kind +
                        " that there are: " + join_names(names));
    }
  }

 private:
  void load_kind(const fs::path& dir, const std::string& kind) {
    std::error_code failure;
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator{dir / kind, failure}) {
      const std::string end = entry.path().extension();
      if (end == ".yaml" || end == ".yml") files.push_back(entry.path());
    }
    if (failure) return problems_.add(dir / kind, 0, "can't be read: " + failure.message());
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
      std::ifstream in{file, std::ios::binary};
      const std::string text{std::istreambuf_iterator<char>{in}, {}};
      if (in) {
        load(kind, text, file, kind + "/" + file.filename().string());
      } else {
        problems_.add(file, 0, std::string{"can't be read: "} + std::strerror(errno));
      }
    }
  }

  void load(const std::string& kind, std::string_view text, const std::string& file,
            const std::string& source) {
    const yaml::Reader reader{file, problems_};
    const std::optional<yaml::Node> root = reader.parse(text);
    if (!root) return;
    if (kind == "policies") return load_policy(reader, *root, source);
    if (!root->find("name")) return reader.fail(root->line, "name is missing");
    const std::size_t before = problems_.lines().size();
    if (kind == "environments") {
      Environment item = read_environment(reader, *root, references_);
      add(registry_.environments_, std::move(item), {kind, source, reader, *root, before});
    } else if (kind == "agents") {
      Agent item = read_agent(reader, *root, references_);
      add(registry_.agents_, std::move(item), {kind, source, reader, *root, before});
    } else if (kind == "tools") {
      add(registry_.tools_, read_tool(reader, *root), {kind, source, reader, *root, before});
    } else {
      add(registry_.prompts_, read_prompt(reader, *root), {kind, source, reader, *root, before});
    }
  }

  void load_policy(const yaml::Reader& reader, const yaml::Node& root, const std::string& source) {
    std::optional<policy::Policy> policy = policy::read_policy(reader, root);
    if (!policy || !is_first("policies", policy->name(), reader, root)) return;
    registry_.policy_sources_[policy->name()] = source;
    registry_.policies_.add(std::move(*policy));
  }

  struct From {
    const std::string& kind;
    const std::string& source;
    const yaml::Reader& reader;
    const yaml::Node& root;
    std::size_t problems_before;
  };
  template <class T>
  void add(Registry::ByName<T>& to, T item, const From& from) {
    if (!is_first(from.kind, item.name, from.reader, from.root)) return;
    if (problems_.lines().size() > from.problems_before) return;
    boost::json::value document = yaml::to_json(from.reader, from.root);
    item.document = std::move(document.get_object());
    item.source = from.source;
    const std::string name = item.name;
    to.insert_or_assign(name, std::move(item));
  }

  bool is_first(const std::string& kind, const std::string& name, const yaml::Reader& reader,
                const yaml::Node& root) {
    const auto [before, first] = from_.try_emplace(kind + "/" + name, reader.file());
    if (first) return true;
    const yaml::Node* node = root.find("name");
    reader.fail(node ? node->line : root.line,
                "'" + name + "' is defined already, in " + before->second);
    return false;
  }

  Registry registry_;
  yaml::Problems problems_;
  std::vector<Reference> references_;
  std::map<std::string, std::string> from_;  // files of this directory, by kind and name
};

Registry Registry::load(const std::string& dir) {
  Loader loader;
  loader.load_builtin();
  if (!dir.empty()) loader.load_directory(dir);
  loader.check_references();
  if (loader.problems().empty()) return loader.take();
  std::string text = "the registry is wrong:";
  for (const std::string& line : loader.problems().lines()) text += "\n  " + line;
  throw Error{Code::invalid, text};
}

}  // namespace tb::registry
