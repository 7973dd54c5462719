// SPDX-License-Identifier: Apache-2.0
#include "session/providers.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_loop.h"
#include "sandbox/fake_provider.h"

namespace tb::session {
namespace {

struct World {
  TestLoop loop;
  sandbox::FakeProvider native{loop.executor()};
  sandbox::FakeProvider docker{loop.executor()};
  Providers providers;
  World() { providers.add("native", native); }
  std::string refusal(const std::string& name, Code code) {
    try {
      providers.get(providers.resolve(name));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      return error.what();
    }
    return "";
  }
};

TEST(Providers, TheFirstIsTheDefaultUnlessAnotherIsChosen) {
  World world;
  world.providers.add("docker", world.docker, Providers::Takes::image);
  EXPECT_EQ(world.providers.resolve(""), "native");
  EXPECT_EQ(&world.providers.get("docker"), &world.docker);
  world.providers.choose_default("docker");
  EXPECT_EQ(world.providers.resolve(""), "docker");
  EXPECT_THROW(world.providers.choose_default("vm"), Error);
}

TEST(Providers, AnUnknownOneIsRefusedWithThoseThatThereAre) {
  World world;
  world.providers.add("docker", world.docker);
  EXPECT_EQ(world.refusal("vm", Code::invalid),
            "Unknown provider: vm; this server has docker, native");
}

TEST(Providers, AKnownOneThatIsNotThereSaysWhatToDoOrHasAnother) {
  World world;
  world.providers.add_missing("e2b", "set E2B_API_KEY");
  EXPECT_EQ(world.refusal("e2b", Code::unavailable),
            "The provider e2b is not set up: set E2B_API_KEY");
  world.providers.stand_in("e2b", "native");
  EXPECT_EQ(world.providers.resolve("e2b"), "native");
  world.providers.add("e2b", world.docker);
  EXPECT_EQ(world.providers.resolve("e2b"), "e2b");
}

TEST(Providers, OneInTroubleSaysWhyAndOthersGoOn) {
  World world;
  std::string problem = "nobody listens on /run/docker.sock: start dockerd";
  world.providers.add("docker", world.docker, Providers::Takes::image, [&] { return problem; });
  EXPECT_EQ(world.refusal("docker", Code::unavailable),
            "The provider docker can't be used: nobody listens on /run/docker.sock: start dockerd");
  EXPECT_EQ(world.refusal("native", Code::unavailable), "");
  EXPECT_EQ(world.providers.find("docker"), &world.docker);
  problem.clear();
  EXPECT_EQ(&world.providers.get("docker"), &world.docker);
}

}  // namespace
}  // namespace tb::session
