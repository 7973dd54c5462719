// SPDX-License-Identifier: Apache-2.0
#include "jail/wire.h"

#include <gtest/gtest.h>

#include <random>

namespace tb::jail {
namespace {

template <class T>
std::string encoded(const T& message) {
  Writer out;
  message.encode(out);
  return out.take();
}

template <class T>
bool decode(std::string_view bytes, T& message) {
  Reader in{bytes};
  return T::decode(in, message);
}

template <class T>
void expect_strict(const T& message) {
  const std::string bytes = encoded(message);
  T back;
  ASSERT_TRUE(decode(bytes, back));
  EXPECT_EQ(encoded(back), bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    T ignored;
    EXPECT_FALSE(decode(std::string_view{bytes}.substr(0, size), ignored)) << size;
  }
  T ignored;
  EXPECT_FALSE(decode(bytes + '\0', ignored));
}

const Create kCreate{"0a-9z",
                     "image:/srv/x y",
                     {.memory = 1, .disk = 2, .cpu_quota = 3, .pids = 4, .open_files = 5},
                     1ull << 41,
                     "{\"thread\":\"\xc3\xa9\"}",
                     17,
                     {"ls", "[", "python3.11"},
                     {{Mount::Kind::volume, 0, "v-1", "/data"},
                      {Mount::Kind::directory, 1, "/srv", "/workspace/in"}}};
const Label kLabel{"id", 77, 1, std::string("\0\xff", 2)};
const Item kItem{"id", "host", 1, 99, "label"};
const Welcome kWelcome{kVersion,
                       4711,
                       {{"user namespace", 0, "", ""}, {"landlock", 2, "no", "new kernel"}},
                       "3 trees"};

TEST(JailWire, EveryMessageComesBackAndNothingElsePasses) {
  expect_strict(kCreate);
  expect_strict(MakeVolume{"v-1", 1ull << 40, "label"});
  expect_strict(VolumeItem{"v-1", 5, 1, "label", {"a", "b"}});
  expect_strict(kLabel);
  expect_strict(kItem);
  expect_strict(kWelcome);
  expect_strict(Welcome{});
}

TEST(JailWire, FieldsKeepTheirPlaces) {
  Create create;
  ASSERT_TRUE(decode(encoded(kCreate), create));
  EXPECT_EQ(create.id, "0a-9z");
  EXPECT_EQ(create.environment, kCreate.environment);
  EXPECT_EQ(create.limits.memory, 1u);
  EXPECT_EQ(create.limits.open_files, 5u);
  EXPECT_EQ(create.ttl_ms, 1ull << 41);
  EXPECT_EQ(create.label, kCreate.label);
  EXPECT_EQ(create.fail_at, 17u);
  EXPECT_EQ(create.programs, kCreate.programs);
  EXPECT_EQ(create.mounts, kCreate.mounts);
  Welcome welcome;
  ASSERT_TRUE(decode(encoded(kWelcome), welcome));
  ASSERT_EQ(welcome.barriers.size(), 2u);
  EXPECT_EQ(welcome.barriers[1].advice, "new kernel");
  EXPECT_EQ(welcome.cleaned, "3 trees");
}

TEST(JailWire, IdsNameDirectoriesAndNothingElse) {
  const struct {
    std::string id;
    bool valid;
  } rows[] = {
      {"a", true},
      {"0", true},
      {"-", true},
      {"a7e45c1e-0000-4000-8000-0123456789ab", true},
      {std::string(64, 'a'), true},
      {std::string(65, 'a'), false},
      {"", false},
      {".", false},
      {"..", false},
      {"a.b", false},
      {"a/b", false},
      {"/", false},
      {"../a", false},
      {"A", false},
      {"a b", false},
      {"a\n", false},
      {"a_b", false},
      {std::string("a\0b", 3), false},
      {std::string(1, '\0'), false},
      {"\xc3\xa9", false},
      {"a*", false},
  };
  for (const auto& row : rows) EXPECT_EQ(valid_id(row.id), row.valid) << row.id;
}

TEST(JailWire, ACreateWithAnIdThatIsNoneIsRefused) {
  Create create = kCreate;
  Create back;
  for (const char* id : {"", "..", "a/../b", "A"}) {
    create.id = id;
    EXPECT_FALSE(decode(encoded(create), back)) << id;
  }
}

TEST(JailWire, MountsNameVolumesByIdAndPlacesThatAreFree) {
  using Kind = Mount::Kind;
  EXPECT_TRUE(valid_mounts({{Kind::volume, 0, "v", "/a"}, {Kind::volume, 1, "v", "/b"}}));
  EXPECT_TRUE(valid_mounts(std::vector<Mount>{{Kind::directory, 1, "/srv/a b", "/a"}}));
  const Mount wrong[] = {{Kind::volume, 0, "../v", "/a"},      {Kind::volume, 0, "/v", "/a"},
                         {Kind::volume, 0, "", "/a"},          {Kind::volume, 2, "v", "/a"},
                         {Kind::directory, 1, "srv", "/a"},    {Kind::volume, 0, "v", "/etc"},
                         {static_cast<Kind>(2), 0, "v", "/a"}, {Kind::volume, 0, "v", "a"}};
  for (const Mount& mount : wrong) EXPECT_FALSE(valid_mounts({mount})) << mount.target;
  EXPECT_FALSE(valid_mounts({{Kind::volume, 0, "v", "/a"}, {Kind::volume, 0, "v", "/a/b"}}));
  std::vector<Mount> many;
  for (std::size_t i = 0; i <= kMaxMounts; ++i) {
    many.push_back({Kind::volume, 0, "v", "/m" + std::to_string(i)});
  }
  EXPECT_FALSE(valid_mounts(many));
  many.pop_back();
  EXPECT_TRUE(valid_mounts(many));
}

TEST(JailWire, ProgramsAreNamesAndNotTooMany) {
  const std::string longest(kMaxProgramName, 'x');
  for (const std::string& name :
       {std::string{"a"}, std::string{"["}, std::string{"g++"}, std::string{"x.y_z-1"}, longest}) {
    EXPECT_TRUE(valid_programs({"ls", name})) << name;
  }
  for (const std::string& name :
       {std::string{}, std::string{"."}, std::string{".."}, std::string{"a/b"},
        std::string{"/bin/ls"}, std::string{"a b"}, std::string{"a\n"}, std::string{"\xc3\xa9"},
        std::string("a\0b", 3), longest + "x"}) {
    EXPECT_FALSE(valid_programs({"ls", name})) << name;
    Create create = kCreate;
    create.programs = {name};
    Create back;
    EXPECT_FALSE(decode(encoded(create), back)) << name;
  }
  EXPECT_TRUE(valid_programs({}));
  EXPECT_TRUE(valid_programs(std::vector<std::string>(kMaxPrograms, "ls")));
  EXPECT_FALSE(valid_programs(std::vector<std::string>(kMaxPrograms + 1, "ls")));
}

TEST(JailWire, ACountOfBarriersThatLiesIsRefused) {
  std::string bytes = encoded(Welcome{});
  for (std::size_t i = 8; i < 12; ++i) bytes[i] = '\xff';
  Welcome back;
  EXPECT_FALSE(decode(bytes, back));
  EXPECT_LE(back.barriers.size(), 1u);
}

template <class T>
void decode_noise(const T& message, std::mt19937& random) {
  const std::string bytes = encoded(message);
  for (int round = 0; round < 500; ++round) {
    std::string noisy = bytes;
    for (int i = 0; i < 3; ++i) noisy[random() % noisy.size()] = static_cast<char>(random());
    if (random() % 2 == 0) noisy.resize(random() % noisy.size());
    T back;
    if (!decode(noisy, back)) continue;
    EXPECT_EQ(encoded(back), noisy);
  }
}

TEST(JailWire, NoiseNeverCrashesAndWhatPassesIsWhatWasSent) {
  std::mt19937 random{4};
  decode_noise(kCreate, random);
  decode_noise(kLabel, random);
  decode_noise(kItem, random);
  decode_noise(kWelcome, random);
}

}  // namespace
}  // namespace tb::jail
