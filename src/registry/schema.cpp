// SPDX-License-Identifier: Apache-2.0
// Whether a schema says only what schema_check.cpp checks.
#include "registry/schema.h"

#include <algorithm>
#include <array>
#include <set>

#include "yaml/json.h"
#include "yaml/reader.h"

namespace tb::registry {
namespace json = boost::json;
namespace {

constexpr int kMaxDepth = 32;

enum class Form { any, text, number, size, list, types, schema, schemas, schema_list, closed };

struct Keyword {
  std::string_view name;
  Form form;
};
constexpr Keyword kKeywords[] = {
    {"type", Form::types},
    {"properties", Form::schemas},
    {"required", Form::list},
    {"additionalProperties", Form::closed},
    {"enum", Form::list},
    {"const", Form::any},
    {"minimum", Form::number},
    {"maximum", Form::number},
    {"exclusiveMinimum", Form::number},
    {"exclusiveMaximum", Form::number},
    {"minLength", Form::size},
    {"maxLength", Form::size},
    {"items", Form::schema},
    {"minItems", Form::size},
    {"maxItems", Form::size},
    {"anyOf", Form::schema_list},
    {"oneOf", Form::schema_list},
    {"allOf", Form::schema_list},
    {"$ref", Form::text},
    {"$defs", Form::schemas},
    {"definitions", Form::schemas},
    {"default", Form::any},
    // For people.
    {"title", Form::text},
    {"description", Form::text},
    {"examples", Form::any},
    {"$comment", Form::text},
    {"$schema", Form::text},
};
constexpr std::array kTypes = {"null", "boolean", "object", "array", "number", "integer", "string"};

class Reading {
 public:
  Reading(const json::value& root, std::vector<Schema::Problem>& problems)
      : root_(root), problems_(problems) {}

  void schema(const json::value& value, const std::string& at, int depth = 0) {
    if (value.is_bool()) {
      read_.insert(&value);
      return;
    }
    if (!value.is_object()) return fail(at, "a schema must be a map of keywords");
    if (depth > kMaxDepth) return fail(at, "the schema is nested too deeply");
    read_.insert(&value);
    if (value.get_object().contains("default")) with_default_.emplace_back(at, &value);
    for (const auto& [name, part] : value.get_object()) {
      const std::string here = at + "/" + yaml::pointer_part(name);
      const auto known = std::find_if(std::begin(kKeywords), std::end(kKeywords),
                                      [&](const Keyword& k) { return k.name == name; });
      if (known == std::end(kKeywords)) {
        unknown(name, here);
      } else {
        keyword(*known, part, here, depth);
      }
    }
  }

  // At the end: what a reference leads to is a schema only if it was read as one. A default or a
  // choice of an enum may look like one, and holds anything.
  void check_references() {
    for (const auto& [at, target] : references_) {
      if (!read_.contains(target)) fail(at, "$ref must lead to a schema, as #/$defs/name");
    }
  }

  // Schemas that have one, and where they are.
  const auto& with_default() const { return with_default_; }

 private:
  void fail(const std::string& at, std::string what) { problems_.push_back({at, std::move(what)}); }

  void unknown(std::string_view name, const std::string& at) {
    if (name == "pattern") {
      return fail(at, "pattern is not supported: list the values with enum, or let the tool check");
    }
    std::vector<std::string> names;
    for (const Keyword& known : kKeywords) names.emplace_back(known.name);
    fail(at, "unknown keyword '" + std::string{name} + "'; known are " + yaml::listed(names));
  }

  void keyword(const Keyword& known, const json::value& part, const std::string& at, int depth) {
    const std::string name{known.name};
    switch (known.form) {
      case Form::any: return;
      case Form::text:
        if (!part.is_string()) return fail(at, name + " must be text");
        if (name == "$ref") reference(part.get_string(), at);
        return;
      case Form::number:
        if (!part.is_number()) fail(at, name + " must be a number");
        return;
      case Form::size:
        if (!part.is_int64() || part.get_int64() < 0) fail(at, name + " must be a whole number");
        return;
      case Form::list: return list(name, part, at);
      case Form::types: return types(part, at);
      case Form::schema: return schema(part, at, depth + 1);
      case Form::closed:
        if (!part.is_bool()) schema(part, at, depth + 1);
        return;
      case Form::schemas:
        if (!part.is_object()) return fail(at, name + " must be a map of schemas");
        for (const auto& [key, item] : part.get_object()) {
          schema(item, at + "/" + yaml::pointer_part(key), depth + 1);
        }
        return;
      case Form::schema_list: return schema_list(name, part, at, depth);
    }
  }

  void list(const std::string& name, const json::value& part, const std::string& at) {
    if (!part.is_array()) return fail(at, name + " must be a list");
    if (name == "enum" && part.get_array().empty()) return fail(at, "enum must not be empty");
    if (name != "required") return;
    std::set<json::string_view> seen;
    for (const json::value& item : part.get_array()) {
      if (!item.is_string()) return fail(at, "required must be a list of names");
      if (!seen.insert(item.get_string()).second) fail(at, "required has a name twice");
    }
  }

  void types(const json::value& part, const std::string& at) {
    const auto one = [&](const json::value& type) {
      const bool fine = type.is_string() &&
                        std::find(kTypes.begin(), kTypes.end(), type.get_string()) != kTypes.end();
      if (fine) return;
      fail(at,
           "type must be " + yaml::listed({kTypes.begin(), kTypes.end()}) + ", or a list of them");
    };
    if (!part.is_array()) return one(part);
    if (part.get_array().empty()) return fail(at, "type must not be an empty list");
    for (const json::value& type : part.get_array()) one(type);
  }

  void schema_list(const std::string& name, const json::value& part, const std::string& at,
                   int depth) {
    if (!part.is_array() || part.get_array().empty()) {
      return fail(at, name + " must be a list of schemas");
    }
    for (std::size_t i = 0; i < part.get_array().size(); ++i) {
      schema(part.get_array()[i], at + "/" + std::to_string(i), depth + 1);
    }
  }

  void reference(json::string_view to, const std::string& at) {
    boost::system::error_code error;
    const bool inside = !to.empty() && to.front() == '#';
    const json::value* found = inside ? root_.find_pointer(to.substr(1), error) : nullptr;
    if (!found) return fail(at, "$ref must lead to a schema of this document, as #/$defs/name");
    references_.emplace_back(at, found);
  }

  const json::value& root_;
  std::vector<Schema::Problem>& problems_;
  std::vector<std::pair<std::string, const json::value*>> with_default_;
  std::vector<std::pair<std::string, const json::value*>> references_;
  std::set<const json::value*> read_;  // as schemas
};

}  // namespace

Schema::Schema(json::value document, std::vector<Problem>& problems)
    : document_(std::move(document)) {
  Reading reading{document_, problems};
  const std::size_t before = problems.size();
  reading.schema(document_, "");
  reading.check_references();
  if (problems.size() > before) return;
  for (const auto& [at, part] : reading.with_default()) {
    json::value value = part->at("default");
    const std::vector<Problem> wrong = check_part(document_, *part, value);
    if (!wrong.empty()) problems.push_back({at + "/default", "the default " + wrong.front().what});
  }
}

}  // namespace tb::registry
