// SPDX-License-Identifier: Apache-2.0
#include "auth/jwt.h"

#include <gtest/gtest.h>

#include "auth/jwks.h"
#include "auth/test_signer.h"
#include "base/test_loop.h"
#include "os/fd.h"
#include "os/test_dir.h"

namespace tb::auth {
namespace {

namespace json = boost::json;

const WallTime kNow{std::chrono::seconds{1'800'000'000}};
constexpr std::int64_t kSoon = 1'800'000'600;

JwtRules rules() {
  JwtRules all;
  all.issuer = "https://id.example";
  all.audience = "threadbox";
  return all;
}

json::object claims() {
  return {{"iss", "https://id.example"},
          {"aud", "threadbox"},
          {"exp", kSoon},
          {"sub", "u-7"},
          {"tenant", "acme"},
          {"role", "readonly"}};
}

std::string refusal(const json::object& of, const JwtRules& by = rules()) {
  try {
    read_claims(json::serialize(of), by, kNow);
  } catch (const BadToken& error) {
    return error.what();
  }
  return "";
}

class JwtTest : public testing::Test {
 protected:
  bool verifies(const std::string& set, const std::string& token) {
    os::replace_file(path_, set, 0600);
    JwksSettings settings;
    settings.file = path_;
    const Jwks keys{loop_.executor(), settings};
    return keys.verify(ParsedJwt::parse(token));
  }

  TestLoop loop_;
  os::TestDir dir_;
  std::string path_ = dir_ / "jwks.json";
};

TEST_F(JwtTest, EachAlgorithmVerifiesItsOwn) {
  for (const char* name : {"RS256", "ES256", "EdDSA", "HS256"}) {
    const TestSigner signer{name};
    const TestSigner other{name, "k1"};
    const std::string token = signer.sign(claims());
    EXPECT_TRUE(verifies(signer.key_set(), token)) << name;
    if (std::string{name} != "HS256") {
      EXPECT_FALSE(verifies(other.key_set(), token)) << name;
    }
    std::string changed = token;
    changed[changed.find('.') + 5] ^= 1;
    try {
      EXPECT_FALSE(verifies(signer.key_set(), changed)) << name;
    } catch (const BadToken&) {
    }
  }
}

TEST_F(JwtTest, APublicKeyIsNobodysSecret) {
  const TestSigner rsa{"RS256"};
  const json::object key = rsa.public_key();
  for (const std::string& secret :
       {rsa.key_set(), json::serialize(key), std::string{key.at("n").as_string()},
        from_base64url(std::string{key.at("n").as_string()}).value()}) {
    const std::string head = base64url(R"({"alg":"HS256","kid":"k1"})");
    const std::string text = head + "." + base64url(json::serialize(claims()));
    unsigned char mac[32];
    unsigned size = 0;
    HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), mac, &size);
    const std::string token =
        text + "." + base64url({reinterpret_cast<const char*>(mac), sizeof mac});
    EXPECT_FALSE(verifies(rsa.key_set(), token));
  }
}

TEST_F(JwtTest, HeadsThatAreNotExactlyRightAreRefused) {
  const TestSigner signer{"HS256"};
  const std::string body = json::serialize(claims());
  for (const char* head : {R"({"alg":"none"})",
                           R"({"alg":"None"})",
                           R"({"alg":"nOnE"})",
                           R"({"alg":""})",
                           R"({})",
                           R"({"alg":["HS256"]})",
                           R"({"alg":"hs256"})",
                           R"({"alg":"HS384"})",
                           R"({"alg":"PS256"})",
                           R"({"alg":"HS256","crit":["exp"]})",
                           R"({"alg":"HS256","crit":[],"b64":false})",
                           R"({"alg":"none","alg":"HS256"})",
                           R"({"alg":"HS256","kid":7})",
                           R"({"alg":"HS256","kid":"a\u0000b"})",
                           R"({"alg":"HS256"} )"
                           "x",
                           R"([])",
                           R"("HS256")",
                           R"({"alg":"HS256",})",
                           "",
                           "\xff"}) {
    EXPECT_THROW(ParsedJwt::parse(signer.sign_text(head, body)), BadToken) << head;
  }
}

TEST_F(JwtTest, TextsThatAreNoTokensAreRefused) {
  const TestSigner signer{"HS256"};
  const std::string good = signer.sign(claims());
  EXPECT_NO_THROW(ParsedJwt::parse(good));
  const std::string none = base64url(R"({"alg":"none"})") + "." + base64url("{}") + ".";
  const std::size_t dot = good.find('.');
  for (const std::string& wrong :
       {std::string{}, std::string{"."}, std::string{".."}, std::string{"a.b"}, good + ".",
        good + "=", good + " ", "." + good, none, good.substr(0, dot) + "=" + good.substr(dot),
        good.substr(0, good.size() - 1) + "\n", std::string(9000, 'a') + "." + good}) {
    EXPECT_THROW(ParsedJwt::parse(wrong), BadToken) << wrong.substr(0, 80);
  }
}

TEST_F(JwtTest, ASecondSpellingOfASignatureIsRefused) {
  // 32 bytes leave two bits in the last letter, which say nothing.
  const std::string good = TestSigner{"HS256"}.sign(claims());
  const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const std::size_t last = letters.find(good.back());
  const std::string other = good.substr(0, good.size() - 1) + letters[last ^ 1];
  EXPECT_THROW(ParsedJwt::parse(other), BadToken);
}

TEST_F(JwtTest, ClaimsSayWhoItIs) {
  const Claimed claimed = read_claims(json::serialize(claims()), rules(), kNow);
  EXPECT_EQ(claimed.who.tenant, "acme");
  EXPECT_EQ(claimed.who.role, Role::readonly);
  EXPECT_EQ(claimed.who.user, "u-7");
  EXPECT_FALSE(claimed.who.operates());
  json::object plain = claims();
  plain.erase("role");
  EXPECT_EQ(read_claims(json::serialize(plain), rules(), kNow).who.role, Role::user);
  plain["role"] = json::array{"billing", "user", "admin"};
  plain["aud"] = json::array{"other", "threadbox"};
  EXPECT_EQ(read_claims(json::serialize(plain), rules(), kNow).who.role, Role::admin);
  JwtRules one = rules();
  one.tenant_claim.clear();
  plain.erase("tenant");
  EXPECT_EQ(read_claims(json::serialize(plain), one, kNow).who.tenant, "");
}

TEST_F(JwtTest, ClaimsThatAreNotExactlyRightAreRefused) {
  struct Row {
    const char* name;
    json::value value;
  };
  const Row rows[] = {{"iss", "https://id.example/"},
                      {"iss", nullptr},
                      {"aud", "other"},
                      {"aud", json::array{}},
                      {"aud", json::array{1}},
                      {"aud", nullptr},
                      {"exp", 1'799'999'940},
                      {"exp", "1800000600"},
                      {"exp", -1},
                      {"exp", 1e300},
                      {"exp", true},
                      {"nbf", 1'800'000'061},
                      {"iat", 1'800'000'061},
                      {"nbf", "x"},
                      {"tenant", ""},
                      {"tenant", "a b"},
                      {"tenant", "a/b"},
                      {"tenant", json::array{"acme"}},
                      {"tenant", json::string("a\0b", 3)},
                      {"tenant", json::string(65, 'a')},
                      {"role", "root"},
                      {"role", json::array{}},
                      {"role", nullptr},
                      {"sub", 7},
                      {"sub", json::string("a\0", 2)},
                      {"sub", json::string(300, 'a')}};
  for (const Row& row : rows) {
    json::object changed = claims();
    changed[row.name] = row.value;
    EXPECT_NE(refusal(changed), "") << row.name << " " << row.value;
  }
  for (const char* name : {"iss", "aud", "exp", "tenant"}) {
    json::object less = claims();
    less.erase(name);
    EXPECT_NE(refusal(less), "") << name;
  }
}

TEST_F(JwtTest, AClaimThatStandsTwiceIsRefused) {
  std::string text = json::serialize(claims());
  text.insert(1, R"("tenant":"other",)");
  EXPECT_THROW(read_claims(text, rules(), kNow), BadToken);
  text = json::serialize(claims());
  text.insert(1, R"("ten\u0061nt":"other",)");
  EXPECT_THROW(read_claims(text, rules(), kNow), BadToken);
}

TEST_F(JwtTest, ClocksMayDifferByTheLeeway) {
  json::object late = claims();
  late["exp"] = 1'799'999'941;
  EXPECT_EQ(refusal(late), "");
  late["nbf"] = 1'800'000'060;
  EXPECT_EQ(refusal(late), "");
  JwtRules strict = rules();
  strict.leeway = std::chrono::seconds{0};
  EXPECT_NE(refusal(late, strict), "");
}

TEST_F(JwtTest, AnEndBeyondAllClocksIsLate) {
  json::object late = claims();
  late["exp"] = 18'002'000'600;
  EXPECT_EQ(refusal(late), "");
  EXPECT_GT(read_claims(json::serialize(late), rules(), kNow).expires, kNow);
  late["nbf"] = 99'999'999'999;
  EXPECT_NE(refusal(late), "");
}

TEST_F(JwtTest, ABrokenKeyKeepsNoOtherOneOut) {
  json::object weak = TestSigner{"RS256"}.public_key();
  weak["n"] = std::string{weak["n"].as_string()}.substr(0, 100);
  json::object set;
  set["keys"] = json::array{weak, TestSigner{"ES256"}.public_key(), weak};
  const KeySet keys = KeySet::parse(json::serialize(set), false);
  EXPECT_EQ(keys.keys().size(), 1u);
  ASSERT_EQ(keys.problems().size(), 2u);
  EXPECT_EQ(keys.problems()[0], "an RSA key has less than 2048 bits");
}

TEST_F(JwtTest, ASubjectHas255BytesAtMost) {
  json::object named = claims();
  named["sub"] = std::string(255, 'u');
  EXPECT_EQ(refusal(named), "");
  named["sub"] = std::string(256, 'u');
  EXPECT_NE(refusal(named), "");
}

TEST_F(JwtTest, WeakOrBrokenKeysAreRefused) {
  const auto fails = [](const json::object& key) {
    json::object set;
    set["keys"] = json::array{key};
    try {
      KeySet::parse(json::serialize(set), true);
    } catch (const Error&) {
      return true;
    }
    return false;
  };
  json::object key = TestSigner{"RS256"}.public_key();
  EXPECT_FALSE(fails(key));
  key["e"] = "AQ";
  EXPECT_TRUE(fails(key));
  key = TestSigner{"RS256"}.public_key();
  key["n"] = std::string{key["n"].as_string()}.substr(0, 100);
  EXPECT_TRUE(fails(key));
  key = TestSigner{"ES256"}.public_key();
  key["x"] = key["y"];
  EXPECT_TRUE(fails(key)) << "no point of the curve";
  key = TestSigner{"HS256"}.public_key();
  key["k"] = "c2hvcnQ";
  EXPECT_TRUE(fails(key));
  key = TestSigner{"RS256"}.public_key();
  key["use"] = "enc";
  EXPECT_TRUE(fails(key)) << "nothing is left";
  for (const char* text : {"", "{}", "[]", R"({"keys":{}})", R"({"keys":[]})", "x"}) {
    EXPECT_THROW(KeySet::parse(text, true), Error) << text;
  }
  EXPECT_THROW(KeySet::parse(TestSigner{"HS256"}.key_set(), false), Error)
      << "nobody publishes secrets";
}

TEST_F(JwtTest, AFileOfKeysIsReadAgainWhenItChanges) {
  const TestSigner first{"ES256", "a"};
  const TestSigner second{"ES256", "b"};
  os::replace_file(path_, first.key_set(), 0600);
  JwksSettings settings;
  settings.file = path_;
  Jwks keys{loop_.executor(), settings};
  const unsigned before = keys.generation();
  os::replace_file(path_, second.key_set(), 0600);
  auto time = std::chrono::steady_clock::now() + std::chrono::seconds{5};
  keys.refresh(time);
  EXPECT_NE(keys.generation(), before);
  EXPECT_TRUE(keys.verify(ParsedJwt::parse(second.sign(claims()))));
  EXPECT_FALSE(keys.verify(ParsedJwt::parse(first.sign(claims()))));
  os::replace_file(path_, "torn", 0600);
  keys.refresh(time += std::chrono::seconds{5});
  EXPECT_TRUE(keys.verify(ParsedJwt::parse(second.sign(claims()))));
}

TEST(VerdictCache, IsBoundedAndEndsWithTheToken) {
  VerdictCache cache{2};
  const auto put = [&](const char* token, int seconds) {
    Claimed claimed;
    claimed.who.user = token;
    claimed.expires = kNow + std::chrono::seconds{seconds};
    cache.put(token, claimed);
  };
  put("a", 10);
  put("b", 20);
  ASSERT_TRUE(cache.find("a", kNow));
  EXPECT_EQ(cache.find("a", kNow)->user, "a");
  put("c", 30);
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_FALSE(cache.find("b", kNow)) << "its use was the oldest";
  EXPECT_FALSE(cache.find("a", kNow + std::chrono::seconds{10}));
  EXPECT_EQ(cache.size(), 1u);
  cache.clear();
  EXPECT_FALSE(cache.find("c", kNow));
}

}  // namespace
}  // namespace tb::auth
