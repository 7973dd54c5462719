// SPDX-License-Identifier: Apache-2.0
// Whether a value fits a schema, and the defaults that it did not give.
#include <cmath>

#include "base/utf8.h"
#include "registry/schema.h"
#include "yaml/json.h"

namespace tb::registry {
namespace json = boost::json;
namespace {

// A schema may refer to itself, and each anyOf may try many ways: without a bound a small body
// could keep the server busy.
constexpr int kMaxDepth = 64;
constexpr std::size_t kMaxSteps = 100'000;
constexpr std::size_t kMaxProblems = 20;
constexpr std::size_t kPlace = 256;  // bytes of a place that cost a step: each value has its own

using Problems = std::vector<Schema::Problem>;

bool equal(const json::value& a, const json::value& b) {
  if (a.is_number() && b.is_number() && (a.is_double() || b.is_double())) {
    return a.to_number<double>() == b.to_number<double>();
  }
  if (a.is_array() && b.is_array()) {
    const json::array& left = a.get_array();
    const json::array& right = b.get_array();
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), equal);
  }
  if (a.is_object() && b.is_object()) {
    if (a.get_object().size() != b.get_object().size()) return false;
    for (const auto& [key, value] : a.get_object()) {
      const json::value* other = b.get_object().if_contains(key);
      if (!other || !equal(value, *other)) return false;
    }
    return true;
  }
  return a == b;
}

bool is_integer(const json::value& value) {
  if (value.is_int64() || value.is_uint64()) return true;
  return value.is_double() && std::nearbyint(value.get_double()) == value.get_double();
}

bool has_type(const json::value& value, json::string_view type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_bool();
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "number") return value.is_number();
  if (type == "integer") return is_integer(value);
  return value.is_string();
}

std::size_t characters(json::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return count;
}

// What a copy costs, in steps.
std::size_t weight(const json::value& value) {
  std::size_t sum = 1;
  if (value.is_string()) sum += value.get_string().size() / 64;
  if (value.is_array()) {
    for (const json::value& item : value.get_array()) sum += weight(item);
  }
  if (value.is_object()) {
    for (const auto& [key, item] : value.get_object()) sum += weight(item);
  }
  return sum;
}

std::string shown(const json::value& value) {
  constexpr std::size_t kMost = 80;
  const std::string text = json::serialize(value);
  return text.size() <= kMost ? text : std::string{first_characters(text, kMost)} + "…";
}

class Checking {
 public:
  explicit Checking(const json::value& root) : root_(root) {}

  void check(const json::value& schema, json::value& value, const std::string& at, int depth,
             Problems& problems) {
    if (problems.size() >= kMaxProblems) return;
    steps_ += 1 + at.size() / kPlace;
    if (depth > kMaxDepth || steps_ > kMaxSteps) {
      return fail(problems, at, "takes too long to check: it is nested too deeply or too large");
    }
    if (schema.is_bool()) {
      if (!schema.get_bool()) fail(problems, at, "is not allowed here");
      return;
    }
    const json::object& words = schema.get_object();
    if (const json::value* reference = words.if_contains("$ref")) {
      boost::system::error_code error;
      const json::value* target =
          root_.find_pointer(json::string_view{reference->get_string()}.substr(1), error);
      if (target) check(*target, value, at, depth + 1, problems);
    }
    if (!type_fits(words, value)) {
      return fail(problems, at, "must be " + types_of(words.at("type")));
    }
    fixed(words, value, at, problems);
    if (value.is_number()) number(words, value.to_number<double>(), at, problems);
    if (value.is_string()) text(words, value.get_string(), at, problems);
    if (value.is_array()) list(words, value.get_array(), at, depth, problems);
    if (value.is_object()) object(words, value.get_object(), at, depth, problems);
    combined(words, value, at, depth, problems);
  }

 private:
  static void fail(Problems& problems, const std::string& at, std::string what) {
    problems.push_back({at, std::move(what)});
  }

  static bool type_fits(const json::object& words, const json::value& value) {
    const json::value* type = words.if_contains("type");
    if (!type) return true;
    if (type->is_string()) return has_type(value, type->get_string());
    for (const json::value& one : type->get_array()) {
      if (has_type(value, one.get_string())) return true;
    }
    return false;
  }

  static std::string types_of(const json::value& type) {
    if (type.is_string()) return std::string{type.get_string()};
    std::string text;
    for (const json::value& one : type.get_array()) {
      text += (text.empty() ? "" : " or ") + std::string{one.get_string()};
    }
    return text;
  }

  static void fixed(const json::object& words, const json::value& value, const std::string& at,
                    Problems& problems) {
    if (const json::value* only = words.if_contains("const"); only && !equal(*only, value)) {
      fail(problems, at, "must be " + shown(*only));
    }
    const json::value* choices = words.if_contains("enum");
    if (!choices) return;
    for (const json::value& choice : choices->get_array()) {
      if (equal(choice, value)) return;
    }
    fail(problems, at, "must be one of " + shown(*choices));
  }

  static void number(const json::object& words, double value, const std::string& at,
                     Problems& problems) {
    const auto holds = [&](const char* name, auto fits, const char* text) {
      const json::value* bound = words.if_contains(name);
      if (!bound || fits(value, bound->to_number<double>())) return;
      fail(problems, at, std::string{"must be "} + text + " " + shown(*bound));
    };
    holds("minimum", std::greater_equal<>{}, "at least");
    holds("maximum", std::less_equal<>{}, "at most");
    holds("exclusiveMinimum", std::greater<>{}, "more than");
    holds("exclusiveMaximum", std::less<>{}, "less than");
  }

  static void size(const json::object& words, const char* least, const char* most,
                   std::size_t count, const char* unit, const std::string& at, Problems& problems) {
    if (const json::value* bound = words.if_contains(least);
        bound && count < static_cast<std::size_t>(bound->get_int64())) {
      fail(problems, at, "must have at least " + shown(*bound) + unit);
    }
    if (const json::value* bound = words.if_contains(most);
        bound && count > static_cast<std::size_t>(bound->get_int64())) {
      fail(problems, at, "must have at most " + shown(*bound) + unit);
    }
  }

  static void text(const json::object& words, json::string_view value, const std::string& at,
                   Problems& problems) {
    if (!words.contains("minLength") && !words.contains("maxLength")) return;
    size(words, "minLength", "maxLength", characters(value), " characters", at, problems);
  }

  void list(const json::object& words, json::array& value, const std::string& at, int depth,
            Problems& problems) {
    size(words, "minItems", "maxItems", value.size(), " items", at, problems);
    const json::value* items = words.if_contains("items");
    if (!items) return;
    for (std::size_t i = 0; i < value.size() && problems.size() < kMaxProblems; ++i) {
      check(*items, value[i], at + "/" + std::to_string(i), depth + 1, problems);
    }
  }

  void object(const json::object& words, json::object& value, const std::string& at, int depth,
              Problems& problems) {
    const json::value* properties = words.if_contains("properties");
    if (properties) fill(properties->get_object(), value);
    if (const json::value* required = words.if_contains("required")) {
      for (const json::value& name : required->get_array()) {
        if (value.contains(name.get_string()) || problems.size() >= kMaxProblems) continue;
        fail(problems, at, "\"" + std::string{name.get_string()} + "\" is required");
      }
    }
    const json::value* others = words.if_contains("additionalProperties");
    for (auto& entry : value) {
      if (problems.size() >= kMaxProblems) return;
      const json::value* known =
          properties ? properties->get_object().if_contains(entry.key()) : nullptr;
      if (!known && !others) continue;
      const std::string here = at + "/" + yaml::pointer_part(entry.key());
      if (known) {
        check(*known, entry.value(), here, depth + 1, problems);
      } else if (others->is_bool() && !others->get_bool()) {
        fail(problems, here, "is not a parameter" + known_names(properties));
      } else {
        check(*others, entry.value(), here, depth + 1, problems);
      }
    }
  }

  static std::string known_names(const json::value* properties) {
    std::string names;
    if (!properties) return names;
    for (const auto& [name, schema] : properties->get_object()) {
      names += (names.empty() ? "; known are " : ", ") + std::string{name};
    }
    return names;
  }

  static void fill(const json::object& properties, json::object& value) {
    for (const auto& [name, schema] : properties) {
      if (value.contains(name) || !schema.is_object()) continue;
      if (const json::value* filled = schema.get_object().if_contains("default")) {
        value[name] = *filled;
      }
    }
  }

  // Of several ways the one that fits fills in its defaults.
  void combined(const json::object& words, json::value& value, const std::string& at, int depth,
                Problems& problems) {
    if (const json::value* all = words.if_contains("allOf")) {
      for (const json::value& one : all->get_array()) check(one, value, at, depth + 1, problems);
    }
    if (const json::value* any = words.if_contains("anyOf")) {
      if (count_fitting(any->get_array(), value, at, depth, 1) == 0) {
        fail(problems, at, "fits none of the alternatives");
      }
    }
    if (const json::value* one = words.if_contains("oneOf")) {
      const int fitting = count_fitting(one->get_array(), value, at, depth, 2);
      if (fitting == 0) fail(problems, at, "fits none of the alternatives");
      if (fitting > 1) fail(problems, at, "fits more than one of the alternatives");
    }
  }

  int count_fitting(const json::array& ways, json::value& value, const std::string& at, int depth,
                    int enough) {
    int count = 0;
    const json::value original = value;
    const std::size_t copying = weight(value);
    for (const json::value& way : ways) {
      steps_ += copying;
      json::value tried = original;
      Problems wrong;
      check(way, tried, at, depth + 1, wrong);
      if (!wrong.empty()) continue;
      if (++count == 1) value = std::move(tried);
      if (count == enough) break;
    }
    return count;
  }

  const json::value& root_;
  std::size_t steps_ = 0;
};

}  // namespace

std::vector<Schema::Problem> Schema::check_part(const json::value& root, const json::value& part,
                                                json::value& value) {
  Problems problems;
  Checking{root}.check(part, value, "", 0, problems);
  return problems;
}

std::vector<Schema::Problem> Schema::check(json::value& value) const {
  return check_part(document_, document_, value);
}

}  // namespace tb::registry
