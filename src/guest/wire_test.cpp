// SPDX-License-Identifier: Apache-2.0
#include "guest/wire.h"
#include "guest/container_wire.h"

#include <gtest/gtest.h>

#include <random>

namespace tb::guest {
namespace {

template <class T>
std::string encoded(const T& message) {
  Writer out;
  message.encode(out);
  return out.take();
}

std::string encoded(const Failure& failure) {
  Writer out;
  failure.encode(out, Message::start_failed);
  return out.take();
}

// Everything after the type byte, or all of it for a Config, which has none.
template <class T>
constexpr std::size_t kTypeBytes = std::is_same_v<T, Config> ? 0 : 1;

template <class T>
bool decode(std::string_view bytes, T& message) {
  Reader in{bytes};
  return T::decode(in, message);
}

template <class T>
std::string fields(const T& message) {
  return encoded(message).substr(kTypeBytes<T>);
}

// Round trip, every prefix, and one byte too many.
template <class T>
void expect_strict(const T& message, Message type) {
  const std::string whole = encoded(message);
  if (kTypeBytes<T> != 0) {
    EXPECT_EQ(static_cast<Message>(whole[0]), type);
  }
  const std::string bytes = fields(message);
  T back;
  ASSERT_TRUE(decode(bytes, back));
  EXPECT_EQ(encoded(back), whole);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    T ignored;
    EXPECT_FALSE(decode(std::string_view{bytes}.substr(0, size), ignored)) << size;
  }
  T ignored;
  EXPECT_FALSE(decode(bytes + '\0', ignored));
}

const std::string kOdd{"a\0\n\xff", 4};

Start full_start() {
  Start start;
  start.id = 0xfffffffe;
  start.shell = 5;
  start.timeout_ms = 1ull << 40;
  start.cwd = "/work space/" + kOdd;
  start.argv = {"echo", "", kOdd};
  start.env = {"A=b", "C="};
  start.script = "echo hi\n";
  start.input = std::string(1000, '\0');
  start.input_mode = InputMode::open;
  start.terminal = 1;
  start.rows = 24;
  start.columns = 65535;
  start.ahead_ms = 30000;
  start.note = kOdd;
  return start;
}

ShellState full_shell() {
  ShellState state;
  state.id = 9;
  state.what = ShellState::What::dead;
  state.generation = 3;
  state.restored = 1;
  state.run = 12;
  state.pid = 77;
  state.cwd = kOdd;
  state.ended = 1;
  state.ended_run = 11;
  state.code = 1;
  state.signal = 9;
  state.cause = Cause::oom;
  state.note = kOdd;
  return state;
}

Started full_started() {
  Started started;
  started.id = 7;
  started.pid = 4711;
  started.age_us = 1ull << 50;
  started.streams = Streams::terminal;
  started.note = kOdd;
  started.taken[0] = 1ull << 40;
  started.taken[1] = 3;
  return started;
}

Config full_config() {
  Config config;
  config.uid = 1000;
  config.gid = 1001;
  config.command_cgroups = 1;
  config.disk_check = 1;
  config.base_filter = kOdd;
  config.value_filter = "v";
  config.command_filter = "";
  config.write_paths = {"/workspace", "/tmp"};
  config.counters = {{kHitMemory, kCounterFd, "memory.events", "oom_kill", 1},
                     {kHitPids, -1, "pids.events", "", 0}};
  config.confined = 1;
  config.read_paths = {"/etc", "/usr/share"};
  config.run_paths = {"/usr/bin/ls"};
  return config;
}

TEST(GuestWire, EveryMessageComesBackAndNothingElsePasses) {
  expect_strict(full_start(), Message::start);
  expect_strict(Signal{7, -15, 0}, Message::signal);
  expect_strict(Release{7, Release::kExit | Release::kOutput}, Message::release);
  expect_strict(Ready{kVersion, 12}, Message::ready);
  expect_strict(Failure{7, 13, "mount /proc"}, Message::start_failed);
  expect_strict(full_started(), Message::started);
  expect_strict(CloseInput{7}, Message::close_input);
  expect_strict(full_shell(), Message::shell);
  expect_strict(Lease{60000, 1ull << 40}, Message::lease);
  expect_strict(Exited{7, 1, 9, Cause::oom, kHitMemory | kHitDisk, 1, 2, 3}, Message::exited);
  expect_strict(full_config(), Message{});
}

TEST(GuestWire, FieldsKeepTheirPlaces) {
  Start start;
  ASSERT_TRUE(decode(fields(full_start()), start));
  EXPECT_EQ(start.id, 0xfffffffe);
  EXPECT_EQ(start.timeout_ms, 1ull << 40);
  EXPECT_EQ(start.argv, full_start().argv);
  EXPECT_EQ(start.env, full_start().env);
  EXPECT_EQ(start.input, full_start().input);
  EXPECT_EQ(start.input_mode, InputMode::open);
  EXPECT_EQ(start.terminal, 1);
  EXPECT_EQ(start.rows, 24u);
  EXPECT_EQ(start.columns, 65535u);
  EXPECT_EQ(start.ahead_ms, 30000u);
  EXPECT_EQ(start.note, kOdd);
  Started started;
  ASSERT_TRUE(decode(fields(full_started()), started));
  EXPECT_EQ(started.streams, Streams::terminal);
  EXPECT_EQ(started.note, kOdd);
  EXPECT_EQ(started.taken[0], 1ull << 40);
  EXPECT_EQ(started.taken[1], 3u);
  Config config;
  ASSERT_TRUE(decode(fields(full_config()), config));
  ASSERT_EQ(config.counters.size(), 2u);
  EXPECT_EQ(config.counters[0].key, "oom_kill");
  EXPECT_EQ(config.counters[1].dir_fd, -1);
  EXPECT_EQ(config.confined, 1);
  EXPECT_EQ(config.read_paths, full_config().read_paths);
  EXPECT_EQ(config.run_paths, full_config().run_paths);
  Exited exited;
  ASSERT_TRUE(decode(fields(Exited{7, 1, 9, Cause::oom, 5, 1, 2, 3}), exited));
  EXPECT_EQ(exited.cause, Cause::oom);
  EXPECT_EQ(exited.peak_bytes, 3u);
}

TEST(GuestWire, AShellNeedsNoProgramAndARunNeedsText) {
  Start start;
  start.kind = Kind::shell;
  Start back;
  EXPECT_TRUE(decode(fields(start), back));
  start.kind = Kind::run;
  start.argv = {"ls"};
  EXPECT_FALSE(decode(fields(start), back));
  start.script = "ls";
  start.shell = 4;
  ASSERT_TRUE(decode(fields(start), back));
  EXPECT_EQ(back.kind, Kind::run);
  EXPECT_EQ(back.shell, 4u);
  start.kind = static_cast<Kind>(3);
  EXPECT_FALSE(decode(fields(start), back));
}

TEST(GuestWire, AStartWithoutAProgramIsRefused) {
  Start nothing;
  Start back;
  EXPECT_FALSE(decode(fields(nothing), back));
  nothing.argv = {""};
  EXPECT_TRUE(decode(fields(nothing), back));
  nothing.argv.clear();
  nothing.script = "x";
  EXPECT_TRUE(decode(fields(nothing), back));
}

TEST(GuestWire, UnknownKindsOfStreamsAreRefused) {
  for (int kind = 0; kind < 256; ++kind) {
    Started started;
    started.streams = static_cast<Streams>(kind);
    Started started_back;
    EXPECT_EQ(decode(fields(started), started_back), kind <= 2) << kind;
    Start start = full_start();
    start.input_mode = static_cast<InputMode>(kind);
    Start back;
    EXPECT_EQ(decode(fields(start), back), kind <= 1) << kind;
    start = full_start();
    start.terminal = static_cast<std::uint8_t>(kind);
    EXPECT_EQ(decode(fields(start), back), kind <= 1) << kind;
  }
}

TEST(GuestWire, AnUnknownCauseIsRefused) {
  for (int cause = 0; cause < 256; ++cause) {
    Exited exited;
    exited.cause = static_cast<Cause>(cause);
    Exited back;
    EXPECT_EQ(decode(fields(exited), back), cause <= static_cast<int>(Cause::killed)) << cause;
  }
}

TEST(GuestWire, AConfigOfAnotherVersionIsRefused) {
  std::string bytes = fields(full_config());
  bytes[0] = static_cast<char>(kVersion + 1);
  Config back;
  EXPECT_FALSE(decode(bytes, back));
}

TEST(GuestWire, ACountOfCountersThatLiesIsRefused) {
  Config config;
  std::string bytes = fields(config);
  constexpr std::size_t kAfter = 1 + 4 + 4;  // confined and two empty lists
  for (std::size_t i = 1; i <= 4; ++i) bytes[bytes.size() - kAfter - i] = '\xff';
  Config back;
  EXPECT_FALSE(decode(bytes, back));
  EXPECT_LE(back.counters.size(), 1u);
}

template <class T>
void decode_noise(const T& message, std::mt19937& random) {
  std::string bytes = fields(message);
  for (int round = 0; round < 500; ++round) {
    std::string noisy = bytes;
    for (int i = 0; i < 3; ++i) noisy[random() % noisy.size()] = static_cast<char>(random());
    if (random() % 2 == 0) noisy.resize(random() % noisy.size());
    T back;
    if (!decode(noisy, back)) continue;
    EXPECT_EQ(fields(back), noisy);
  }
}

TEST(GuestWire, NoiseNeverCrashesAndWhatPassesIsWhatWasSent) {
  std::mt19937 random{3};
  decode_noise(full_start(), random);
  decode_noise(Signal{}, random);
  decode_noise(Release{}, random);
  decode_noise(Ready{}, random);
  decode_noise(Failure{1, 2, "step"}, random);
  decode_noise(full_started(), random);
  decode_noise(CloseInput{}, random);
  decode_noise(Exited{}, random);
  decode_noise(full_config(), random);
}

}  // namespace
}  // namespace tb::guest
