// SPDX-License-Identifier: Apache-2.0
#include "registry/schema.h"

#include <gtest/gtest.h>

namespace tb::registry {
namespace {

namespace json = boost::json;

std::string load_error(const char* schema) {
  std::vector<Schema::Problem> problems;
  const Schema loaded{json::parse(schema), problems};
  return problems.empty() ? "" : problems.front().pointer + ": " + problems.front().what;
}

// The first problem; or, when it fits, the value with its defaults.
std::string checked(const char* schema, const char* value) {
  std::vector<Schema::Problem> problems;
  const Schema loaded{json::parse(schema), problems};
  EXPECT_TRUE(problems.empty()) << schema << ": " << problems.front().what;
  json::value instance = json::parse(value);
  const auto wrong = loaded.check(instance);
  return wrong.empty() ? json::serialize(instance)
                       : wrong.front().pointer + ": " + wrong.front().what;
}

bool fits(const char* schema, const char* value) {
  return checked(schema, value).find(": ") == std::string::npos;
}

TEST(Schema, RefusesWhatItDoesNotCheck) {
  EXPECT_EQ(load_error(R"({"properties":{"a":{"format":"uri"}}})").substr(0, 51),
            "/properties/a/format: unknown keyword 'format'; kno");
  EXPECT_NE(load_error(R"({"pattern":"a*"})").find("pattern is not supported"), std::string::npos);
  EXPECT_NE(load_error(R"({"type":"text"})"), "");
  EXPECT_NE(load_error(R"({"type":[]})"), "");
  EXPECT_NE(load_error(R"({"minimum":"1"})"), "");
  EXPECT_NE(load_error(R"({"minLength":-1})"), "");
  EXPECT_NE(load_error(R"({"enum":[]})"), "");
  EXPECT_NE(load_error(R"({"required":["a","a"]})"), "");
  EXPECT_NE(load_error(R"({"anyOf":[]})"), "");
  EXPECT_NE(load_error(R"({"items":3})"), "");
  EXPECT_NE(load_error(R"({"properties":[]})"), "");
}

TEST(Schema, ReferencesStayInTheDocument) {
  EXPECT_EQ(load_error(R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}})"), "");
  EXPECT_NE(load_error(R"({"$ref":"http://example.com/x"})"), "");
  EXPECT_NE(load_error(R"({"$ref":"#/$defs/none"})"), "");
  EXPECT_NE(load_error(R"({"default":{"pattern":"x"},"$ref":"#/default"})"), "");
  for (const char* to : {"#/$defs/a/default", "#/$defs/a/enum/0", "#/$defs/a/const", "#/$defs"}) {
    const std::string text = R"({"$defs":{"a":{"default":{"type":5},"enum":[{"type":5}],
        "const":{"type":5}}},"$ref":")" +
                             std::string{to} + "\"}";
    EXPECT_NE(load_error(text.c_str()).find("lead to a schema"), std::string::npos) << to;
  }
  const char* tree = R"({"type":"object","properties":{"next":{"$ref":"#"}},
                         "additionalProperties":false})";
  EXPECT_TRUE(fits(tree, R"({"next":{"next":{}}})"));
  EXPECT_EQ(checked(tree, R"({"next":{"other":1}})"),
            "/next/other: is not a parameter; known are next");
}

TEST(Schema, ChecksTypes) {
  struct Row {
    const char* type;
    const char* value;
    bool fine;
  };
  constexpr Row kRows[] = {
      {"null", "null", true},
      {"null", "0", false},
      {"boolean", "false", true},
      {"boolean", "0", false},
      {"object", "{}", true},
      {"object", "[]", false},
      {"array", "[]", true},
      {"array", "{}", false},
      {"number", "1.5", true},
      {"number", "1", true},
      {"number", "\"1\"", false},
      {"integer", "3", true},
      {"integer", "3.0", true},
      {"integer", "3.5", false},
      {"integer", "18446744073709551615", true},
      {"string", "\"\"", true},
      {"string", "null", false},
  };
  for (const Row& row : kRows) {
    const std::string schema = std::string{R"({"type":")"} + row.type + "\"}";
    EXPECT_EQ(fits(schema.c_str(), row.value), row.fine) << row.type << " " << row.value;
  }
  EXPECT_TRUE(fits(R"({"type":["string","null"]})", "null"));
  EXPECT_EQ(checked(R"({"type":["string","null"]})", "1"), ": must be string or null");
}

TEST(Schema, ChecksBounds) {
  EXPECT_TRUE(fits(R"({"minimum":1,"maximum":2})", "1"));
  EXPECT_TRUE(fits(R"({"minimum":1,"maximum":2})", "2"));
  EXPECT_EQ(checked(R"({"minimum":1})", "0"), ": must be at least 1");
  EXPECT_EQ(checked(R"({"exclusiveMaximum":1})", "1"), ": must be less than 1");
  EXPECT_EQ(checked(R"({"exclusiveMinimum":1})", "1"), ": must be more than 1");
  EXPECT_TRUE(fits(R"({"maxLength":2})", "\"\xc3\xa4\xc3\xb6\""));  // characters, not bytes
  EXPECT_FALSE(fits(R"({"maxLength":2})", "\"abc\""));
  EXPECT_FALSE(fits(R"({"minLength":1})", "\"\""));
  EXPECT_FALSE(fits(R"({"minItems":1})", "[]"));
  EXPECT_FALSE(fits(R"({"maxItems":1})", "[1,2]"));
  EXPECT_EQ(checked(R"({"items":{"type":"string"}})", R"(["a",1])"), "/1: must be string");
}

TEST(Schema, ComparesValuesAndNotTheirSpelling) {
  EXPECT_TRUE(fits(R"({"const":1})", "1.0"));
  EXPECT_TRUE(fits(R"({"enum":[{"a":1,"b":[2]}]})", R"({"b":[2.0],"a":1})"));
  EXPECT_FALSE(fits(R"({"enum":["1"]})", "1"));
  EXPECT_FALSE(fits(R"({"const":true})", "1"));
}

TEST(Schema, WantsWhatIsRequiredAndFillsInDefaults) {
  const char* schema = R"({"type":"object","required":["a"],"properties":{
      "a":{"type":"string"},"b":{"type":"integer","default":3},
      "c":{"type":"object","default":{},"properties":{"d":{"default":true}}}}})";
  EXPECT_EQ(checked(schema, "{}"), ": \"a\" is required");
  EXPECT_EQ(checked(schema, R"({"a":"x"})"), R"({"a":"x","b":3,"c":{"d":true}})");
  EXPECT_EQ(checked(schema, R"({"a":"x","b":1,"z":0})"), R"({"a":"x","b":1,"z":0,"c":{"d":true}})");
}

TEST(Schema, ADefaultMustFit) {
  EXPECT_EQ(load_error(R"({"properties":{"a":{"type":"integer","default":"x"}}})"),
            "/properties/a/default: the default must be integer");
  // A property of this name is none.
  EXPECT_EQ(load_error(R"({"properties":{"default":{"type":"integer"},"type":{}}})"), "");
}

TEST(Schema, TriesAlternatives) {
  const char* any = R"({"anyOf":[{"required":["a"],"properties":{"x":{"default":1}}},
                                 {"required":["b"],"properties":{"y":{"default":2}}}]})";
  EXPECT_EQ(checked(any, R"({"b":0})"), R"({"b":0,"y":2})");
  EXPECT_EQ(checked(any, "{}"), ": fits none of the alternatives");
  const char* one = R"({"oneOf":[{"type":"number"},{"type":"integer"}]})";
  EXPECT_TRUE(fits(one, "1.5"));
  EXPECT_EQ(checked(one, "1"), ": fits more than one of the alternatives");
  EXPECT_FALSE(fits(R"({"allOf":[{"minimum":1},{"maximum":2}]})", "3"));
  EXPECT_EQ(checked("false", "1"), ": is not allowed here");
}

TEST(Schema, EndsWhateverItIsAsked) {
  EXPECT_FALSE(fits(R"({"$ref":"#"})", "1"));
  // Two ways at each of many levels.
  const char* doubling = R"({"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{
      "a":{"anyOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}],"type":"array"}}})";
  EXPECT_FALSE(fits(doubling, "[[[[[[[[[[[[[[1]]]]]]]]]]]]]]"));
  std::string wide = "[0";
  for (int i = 0; i < 200'000; ++i) wide += ",0";
  wide += "]";
  EXPECT_NE(checked(R"({"items":{"type":"integer"}})", wide.c_str()).find("too long"),
            std::string::npos);
}

TEST(Schema, SaysOfManyMistakesTheFirst) {
  std::string many = "{\"k\":0";
  for (int i = 0; i < 1000; ++i) many += ",\"k" + std::to_string(i) + "\":0";
  many += "}";
  json::value value = json::parse(many);
  for (const char* text :
       {R"({"additionalProperties":false})", R"({"additionalProperties":{"type":"string"}})"}) {
    std::vector<Schema::Problem> none;
    EXPECT_EQ((Schema{json::parse(text), none}.check(value).size()), 20u) << text;
  }
}

// Where a value stands is told with all the keys above it: a long one above many values would be
// copied for each of them.
TEST(Schema, ALongKeyAboveManyValuesIsTooMuch) {
  std::string list = "[0";
  for (int i = 0; i < 50'000; ++i) list += ",0";
  const std::string text = "{\"" + std::string(1 << 20, 'k') + "\":" + list + "]}";
  const std::string said =
      checked(R"({"additionalProperties":{"items":{"type":"integer"}}})", text.c_str());
  EXPECT_NE(said.find("too long"), std::string::npos);
}

}  // namespace
}  // namespace tb::registry
