// SPDX-License-Identifier: Apache-2.0
#include "yaml/reader.h"

#include <gtest/gtest.h>

#include "yaml/json.h"

namespace tb::yaml {
namespace {

struct File {
  Problems problems;
  Reader reader{"f.yaml", problems};
  std::optional<Node> root;
  explicit File(std::string_view yaml) : root(reader.parse(yaml)) {}
};

TEST(Yaml, NotesEverythingThatIsWrongWithItsLine) {
  File file{"a: [x]\nb: maybe\nc: 7\nd: 1\nb: again\ne: {x: 1}\n"};
  const Reader& reader = file.reader;
  reader.fields(*file.root, {{"a", [&](const Node& n) { reader.text("a", n); }},
                             {"b", [&](const Node& n) { reader.truth("b", n); }},
                             {"c", [&](const Node& n) { reader.whole("c", n, 1, 5); }},
                             {"e", [&](const Node& n) { reader.texts("e", n); }}});
  EXPECT_EQ(file.problems.lines(),
            (std::vector<std::string>{
                "f.yaml:1: a must be text", "f.yaml:2: b must be true or false",
                "f.yaml:3: c must be a whole number from 1 to 5",
                "f.yaml:4: unknown key 'd'; known are a, b, c and e",
                "f.yaml:5: 'b' stands there twice", "f.yaml:6: e must be a list, as [a, b]"}));
}

TEST(Yaml, SaysWhereItCanNotBeParsed) {
  EXPECT_EQ(File{"- a\n"}.problems.lines().at(0),
            "f.yaml:1: must be a map of keys; the first is name");
  EXPECT_EQ(File{""}.problems.lines().at(0), "f.yaml:1: must be a map of keys; the first is name");
  const File broken{"a: 1\nb: [\n"};
  EXPECT_TRUE(broken.problems.lines().at(0).starts_with("f.yaml:3: "));
  const File two{"a: 1\n---\nb: 2\n"};
  EXPECT_EQ(two.problems.lines().at(0), "f.yaml:3: must hold one document");
}

TEST(Yaml, AliasesCanNotGrowWithoutBounds) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 8; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int j = 0; j < 9; ++j) bomb += ", " + before;
    bomb += "]\n";
  }
  const File file{bomb};
  EXPECT_FALSE(file.root);
  EXPECT_NE(file.problems.lines().at(0).find("has too many values"), std::string::npos);
  EXPECT_FALSE(File{"a: " + std::string(100, '[') + std::string(100, ']') + "\n"}.root);
  EXPECT_FALSE(File{"a: " + std::string(2 << 20, 'x')}.root);
  EXPECT_FALSE(File{"a: " + std::string(100'000, '[')}.root);
  std::string text = "a: &a " + std::string(100'000, 'x') + "\nb: [*a";
  for (int i = 0; i < 100; ++i) text += ",*a";
  const File many{text + "]\n"};
  EXPECT_FALSE(many.root);
  EXPECT_NE(many.problems.lines().at(0).find("has too much text"), std::string::npos);
  EXPECT_FALSE(File{"a: &a [*a]\n"}.root);
}

TEST(Yaml, BecomesJsonWithTypesAndLines) {
  File file{"n: 1\nf: 0.5\nt: true\nq: \"1\"\nz: ~\nl:\n  - inf\n  - a/b: x\n"};
  Lines lines;
  const boost::json::value value = to_json(file.reader, *file.root, &lines);
  EXPECT_EQ(boost::json::serialize(value),
            R"({"n":1,"f":5E-1,"t":true,"q":"1","z":null,"l":["inf",{"a/b":"x"}]})");
  EXPECT_EQ(lines.at("/l/1/a~1b"), 8);
  EXPECT_EQ(lines.at("/q"), 4);
}

}  // namespace
}  // namespace tb::yaml
