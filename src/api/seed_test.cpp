// SPDX-License-Identifier: Apache-2.0
// The seed dialect, health and processes, from a request to its answer, on sandboxes in memory.
#include <gtest/gtest.h>

#include "api/service.h"
#include "base/error.h"
#include "base/log.h"
#include "base/test_loop.h"
#include "http/test_exchange.h"
#include "sandbox/fake_provider.h"
#include "session/test_parts.h"

namespace tb::api {
namespace {

namespace json = boost::json;

session::PoolSettings pool_of(std::size_t capacity) {
  session::PoolSettings pool;
  pool.size = 0;
  pool.capacity = capacity;
  return pool;
}

struct Answer {
  http::Response response;
  json::object body;
  std::string text(const char* name) const { return std::string{body.at(name).as_string()}; }
};

sandbox::Exit exited(int code) {
  sandbox::Exit exit;
  exit.code = code;
  exit.wall = 1500us;
  return exit;
}

class Api : public testing::Test {
 protected:
  Api() {
    set_log(LogLevel::off, false);
    add_seed_routes(router_, service_);
    add_health_routes(router_, service_);
    add_process_routes(router_, service_);
  }
  ~Api() override { set_log(LogLevel::info, false); }

  Answer ask(const std::string& method, const std::string& target, const std::string& body = {}) {
    http::TestExchange exchange{method, target, body};
    loop_.run(router_.handle(exchange));
    Answer answer{exchange.response, {}};
    if (answer.response.content_type == "application/json") {
      answer.body = json::parse(answer.response.body).as_object();
    }
    return answer;
  }
  Answer post(const std::string& target, json::object body) {
    return ask("POST", target, json::serialize(body));
  }
  std::string create(const std::string& thread = "t") {
    return post("/create_session", {{"thread_id", thread}}).text("session_id");
  }
  Answer execute(json::object body) {
    if (!body.contains("session_id")) body["session_id"] = create();
    return post("/execute", std::move(body));
  }
  // The next processes print this and end so.
  void processes_do(std::string out, std::string err, sandbox::Exit exit) {
    provider_.on_start = [=](sandbox::FakeProcess& process) {
      process.out = out;
      process.err = err;
      process.end(exit);
    };
  }
  sandbox::Command last_command(const std::string& session) {
    return provider_.sandboxes.at(session)->started.back()->command;
  }

  TestLoop loop_;
  sandbox::FakeProvider provider_{loop_.executor()};
  session::TestParts parts_;
  session::Sessions sessions_{loop_.executor(), parts_.with(provider_),
                              session::TestParts::settings(pool_of(2))};
  Service service_{sessions_, parts_.metrics, "w1", "host"};
  Router router_{parts_.metrics};
};

TEST_F(Api, CreatesASessionAndFindsItAgain) {
  const Answer first = post("/create_session", {{"thread_id", "t"}, {"user_id", "u"}});
  EXPECT_EQ(first.response.status, 200);
  EXPECT_EQ(first.text("status"), "created");
  EXPECT_EQ(first.text("thread_id"), "t");
  EXPECT_EQ(first.text("workspace_dir"), "/workspace");
  EXPECT_EQ(first.text("worker"), "w1");
  EXPECT_EQ(first.text("created_at").size(), 20u);
  const Answer again = post("/create_session", {{"thread_id", "t"}});
  EXPECT_EQ(again.response.status, 409);
  EXPECT_EQ(again.text("status"), "existing");
  EXPECT_EQ(again.text("session_id"), first.text("session_id"));
}

TEST_F(Api, CreatesWithoutABody) {
  EXPECT_EQ(ask("POST", "/create_session").response.status, 200);
  EXPECT_EQ(ask("POST", "/create_session/", "{}").response.status, 200);
  EXPECT_EQ(sessions_.count(), 2u);
}

TEST_F(Api, TellsWhenItIsFull) {
  create("a");
  create("b");
  const Answer answer = post("/create_session", {{"thread_id", "c"}});
  EXPECT_EQ(answer.response.status, 503);
  EXPECT_EQ(answer.text("error"), "Pool at max capacity, try again later");
  EXPECT_TRUE(answer.response.find("Retry-After"));
}

TEST_F(Api, RefusesNamesThatAreNone) {
  for (const char* field : {"thread_id", "user_id"}) {
    EXPECT_EQ(post("/create_session", {{field, 5}}).response.status, 400);
    EXPECT_EQ(post("/create_session", {{field, "a\nb"}}).response.status, 400);
    EXPECT_EQ(post("/create_session", {{field, "\x7f"}}).response.status, 400);
    EXPECT_EQ(post("/create_session", {{field, std::string(513, 'x')}}).response.status, 400);
  }
  EXPECT_EQ(sessions_.count(), 0u);
  EXPECT_EQ(post("/create_session", {{"thread_id", std::string(512, 'x')}}).response.status, 200);
}

TEST_F(Api, TakesAnIdleTimeInMinutes) {
  for (const json::value& bad : {json::value(0), json::value(-1), json::value(10081),
                                 json::value(1e300), json::value("5"), json::value(true)}) {
    EXPECT_EQ(post("/create_session", {{"timeout_minutes", bad}}).response.status, 400) << bad;
  }
  const std::string id = post("/create_session", {{"timeout_minutes", 1.5}}).text("session_id");
  EXPECT_EQ(provider_.idle.at(id), 90s);
  const std::string usual = create("u");
  EXPECT_EQ(provider_.idle.at(usual), 30min);
}

// No time at all would mean: for ever.
TEST_F(Api, ATinyIdleTimeIsNotForEver) {
  const Answer answer = post("/create_session", {{"timeout_minutes", 1e-6}});
  if (answer.response.status == 400) return;
  EXPECT_GT(provider_.idle.at(answer.text("session_id")), 0ms);
}

TEST_F(Api, ExecutesACommand) {
  processes_do("out\n", "err\n", exited(3));
  const std::string id = create();
  const Answer answer = execute({{"session_id", id}, {"command", "exit 3"}});
  EXPECT_EQ(answer.response.status, 200);
  EXPECT_EQ(answer.text("stdout"), "out\n");
  EXPECT_EQ(answer.text("stderr"), "err\n");
  EXPECT_EQ(answer.text("output"), "out\nerr\n");
  EXPECT_EQ(answer.body.at("exit_code").as_int64(), 3);
  EXPECT_EQ(answer.text("cause"), "exited");
  EXPECT_FALSE(answer.body.at("timed_out").as_bool());
  EXPECT_TRUE(answer.body.at("signal").is_null());
  EXPECT_EQ(answer.body.at("execution_time_ms").as_int64(), 1);
  EXPECT_EQ(answer.body.at("process_id").to_number<int>(), 1);
  EXPECT_EQ(last_command(id).script, "exit 3");
  EXPECT_EQ(last_command(id).cwd, "/workspace");
  EXPECT_EQ(last_command(id).timeout, 30s);
}

TEST_F(Api, PassesOnWhatTheCommandNeeds) {
  const std::string id = create();
  execute({{"session_id", id},
           {"command", "env"},
           {"timeout", 2.5},
           {"cwd", "/tmp"},
           {"stdin", "in"},
           {"env", {{"A", "1"}}}});
  const sandbox::Command command = last_command(id);
  EXPECT_EQ(command.timeout, 2500ms);
  EXPECT_EQ(command.cwd, "/tmp");
  EXPECT_EQ(command.input, "in");
  ASSERT_EQ(command.env.size(), 1u);
  EXPECT_EQ(command.env[0].first, "A");
}

TEST_F(Api, OutputThatIsNoTextIsStillAnswered) {
  processes_do("\xff\xfeok", "", {});
  EXPECT_EQ(execute({{"command", "cat"}}).text("stdout"), "\xef\xbf\xbd\xef\xbf\xbdok");
}

TEST_F(Api, ATimeoutIsAnAnswer) {
  processes_do("half", "no newline", sandbox::FakeProcess::ended_by(sandbox::Cause::timeout, 124));
  const Answer answer = execute({{"command", "sleep 9"}, {"timeout", 1.25}});
  EXPECT_EQ(answer.response.status, 200);
  EXPECT_EQ(answer.body.at("exit_code").as_int64(), 124);
  EXPECT_TRUE(answer.body.at("timed_out").as_bool());
  EXPECT_EQ(answer.text("stderr"), "no newline\ntimed out after 1.250 s\n");
  EXPECT_EQ(answer.text("stdout"), "half");
}

TEST_F(Api, ASignalAndLimitsAreTold) {
  sandbox::Exit exit = sandbox::FakeProcess::ended_by(sandbox::Cause::oom, 137);
  exit.signal = 9;
  exit.limits_hit = {"memory"};
  processes_do("", "", exit);
  const Answer answer = execute({{"command", "x"}});
  EXPECT_EQ(answer.body.at("signal").as_int64(), 9);
  EXPECT_EQ(answer.text("cause"), "oom");
  EXPECT_EQ(answer.body.at("limits_hit").as_array().at(0).as_string(), "memory");
}

TEST_F(Api, RefusesCommandsThatAreNone) {
  const std::string id = create();
  const json::object rows[] = {
      {},
      {{"command", "x"}},
      {{"session_id", id}},
      {{"session_id", id}, {"command", nullptr}},
      {{"session_id", id}, {"command", 5}},
      {{"session_id", 5}, {"command", "x"}},
      {{"session_id", id}, {"command", ""}},
      {{"session_id", id}, {"command", " \n\t"}},
      {{"session_id", id}, {"command", std::string("a\0b", 3)}},
      {{"session_id", id}, {"command", "x"}, {"timeout", 0}},
      {{"session_id", id}, {"command", "x"}, {"timeout", "5"}},
      {{"session_id", id}, {"command", "x"}, {"cwd", 1}},
      {{"session_id", id}, {"command", "x"}, {"stdin", {"a"}}},
      {{"session_id", id}, {"command", "x"}, {"env", "A=1"}},
      {{"session_id", id}, {"command", "x"}, {"env", {{"A", 1}}}},
  };
  for (const json::object& body : rows) {
    EXPECT_EQ(post("/execute", body).response.status, 400) << json::serialize(body);
  }
  EXPECT_TRUE(provider_.sandboxes.at(id)->started.empty());
}

TEST_F(Api, AnUnknownSessionIs404) {
  const Answer answer = execute({{"session_id", "nobody's"}, {"command", "x"}});
  EXPECT_EQ(answer.response.status, 404);
  EXPECT_EQ(answer.text("error"), "Invalid or expired session");
  EXPECT_EQ(answer.text("session_id"), "nobody's");
}

TEST_F(Api, CleanupMayBeRepeated) {
  const std::string id = create();
  for (int i = 0; i < 2; ++i) {
    const Answer answer = post("/cleanup", {{"session_id", id}});
    EXPECT_EQ(answer.response.status, 200);
    EXPECT_EQ(answer.text("status"), "cleaned_up");
    EXPECT_EQ(answer.text("session_id"), id);
  }
  EXPECT_EQ(sessions_.count(), 0u);
  EXPECT_EQ(post("/cleanup", {}).response.status, 400);
  EXPECT_EQ(post("/cleanup", {{"session_id", 1}}).response.status, 400);
}

TEST_F(Api, HealthCountsWhatThereIs) {
  create();
  const Answer answer = ask("GET", "/health");
  EXPECT_EQ(answer.response.status, 200);
  EXPECT_EQ(answer.text("status"), "healthy");
  EXPECT_EQ(answer.text("worker_id"), "w1");
  EXPECT_EQ(answer.body.at("active_sessions").to_number<int>(), 1);
  EXPECT_EQ(answer.body.at("pool").at("max_capacity").to_number<int>(), 2);
}

TEST_F(Api, ListsProcessesAndShowsOne) {
  processes_do("hello", "", exited(1));
  const std::string id = create();
  execute({{"session_id", id}, {"command", "x"}});
  const Answer list = ask("GET", "/api/sessions/" + id + "/processes");
  EXPECT_EQ(list.body.at("processes").as_array().size(), 1u);
  const Answer one = ask("GET", "/api/sessions/" + id + "/processes/1");
  EXPECT_EQ(one.text("state"), "exited");
  EXPECT_EQ(one.body.at("exit_code").as_int64(), 1);
  for (const char* number : {"2", "0", "4294967297"}) {
    EXPECT_EQ(ask("GET", "/api/sessions/" + id + "/processes/" + number).response.status, 404);
  }
  EXPECT_EQ(ask("GET", "/api/sessions/" + id + "/processes/x").response.status, 400);
  EXPECT_EQ(ask("GET", "/api/sessions/nobody/processes").response.status, 404);
}

TEST_F(Api, ReadsOutputByOffset) {
  processes_do("0123456789", "E", {});
  const std::string id = create();
  execute({{"session_id", id}, {"command", "x"}});
  const std::string path = "/api/sessions/" + id + "/processes/1/output";
  EXPECT_EQ(ask("GET", path).response.body, "0123456789E");
  EXPECT_EQ(ask("GET", path + "?stream=stderr").response.body, "E");
  const Answer page = ask("GET", path + "?stream=stdout&offset=3&limit=4");
  EXPECT_EQ(page.response.body, "3456");
  EXPECT_EQ(*page.response.find("X-Output-Offset"), "3");
  EXPECT_EQ(*page.response.find("X-Output-Total"), "10");
  EXPECT_EQ(*page.response.find("X-Process-State"), "exited");
  EXPECT_EQ(ask("GET", path + "?offset=99999").response.body, "");
  for (const char* query : {"?offset=-1", "?offset=x", "?offset=", "?limit=1e3", "?stream=both",
                            "?offset=18446744073709551616"}) {
    EXPECT_EQ(ask("GET", path + query).response.status, 400) << query;
  }
}

}  // namespace
}  // namespace tb::api
