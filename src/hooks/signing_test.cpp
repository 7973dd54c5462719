// SPDX-License-Identifier: Apache-2.0
#include "hooks/signing.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/sha256.h"
#include "os/test_dir.h"

namespace tb::hooks {
namespace {

// The example of the Standard Webhooks specification.
constexpr const char* kSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

TEST(Secret, SignsAsTheSpecificationsExample) {
  const Secret secret = Secret::parse(kSecret);
  EXPECT_EQ(secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, R"({"test": 2432232314})"),
            "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
  EXPECT_EQ(secret.text(), kSecret);
}

TEST(Secret, IsOfAKnownFormAndLong) {
  for (const char* text : {"", "whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=",
                           "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", "whsk_MfKQ9r8GKYqrTwjUPD8I",
                           "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"}) {
    try {
      Secret::parse(text);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid);
      EXPECT_EQ(std::string{error.what()}.find("MfKQ"), std::string::npos) << "it is repeated";
    }
  }
  EXPECT_THROW(Secret::parse("whsec_" + base64(std::string(65, 'x'))), Error);
  EXPECT_NO_THROW(Secret::parse("whsec_" + base64(std::string(64, 'x'))));
}

TEST(Secret, IsMadeOnceAndForItsOwner) {
  const os::TestDir dir;
  const std::string path = dir.path() + "/secret";
  bool made = false;
  const Secret first = load_or_make_secret(path, made);
  EXPECT_TRUE(made);
  struct stat info{};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(load_or_make_secret(path, made).text(), first.text());
  EXPECT_FALSE(made);
  EXPECT_NE(Secret::make().text(), first.text());
}

TEST(Base64, IsReadOnlyAsItIsWritten) {
  for (const std::string& bytes : {std::string{}, std::string{"f"}, std::string{"fo"},
                                   std::string{"foo"}, std::string{"\0\xff\x80", 3}}) {
    EXPECT_EQ(from_base64(base64(bytes)), bytes);
  }
  for (const char* bad :
       {"Zg", "Zg=", "Zh==", "Zg===", "Z===", "Zm9v=", "Zm 9v", "Zm9v\n", "====", "Zm-_", "="}) {
    EXPECT_FALSE(from_base64(bad)) << bad;
  }
}

TEST(Secrets, OfAChangedOneBothSignForADay) {
  const Secret first = Secret::make(), second = Secret::make(), third = Secret::make();
  const std::int64_t now = 1'794'795'685;
  const Secrets kept = Secrets::parse(first.text());
  EXPECT_EQ(kept.text(), first.text());
  EXPECT_EQ(kept.sign("id", now, "x"), first.sign("id", now, "x"));
  const Secrets both = Secrets::parse(kept.changed_to(second, now).text());
  EXPECT_EQ(both.current().text(), second.text());
  EXPECT_EQ(both.sign("id", now + 86399, "x"),
            second.sign("id", now + 86399, "x") + " " + first.sign("id", now + 86399, "x"));
  EXPECT_EQ(both.sign("id", now + 86400, "x"), second.sign("id", now + 86400, "x"));
  EXPECT_EQ(both.changed_to(third, now).sign("id", now, "x"),
            third.sign("id", now, "x") + " " + second.sign("id", now, "x"));
}

}  // namespace
}  // namespace tb::hooks
