// The examples of https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html.
#include "store/s3_sign.hpp"

#include <gtest/gtest.h>

#include "store/files.hpp"

namespace twinpod::store {
namespace {

const S3Address kExample = {.endpoint = "https://examplebucket.s3.amazonaws.com",
                            .bucket = "",
                            .access_key = "AKIAIOSFODNN7EXAMPLE",
                            .secret_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"};

std::string signature_of(const S3Call& call) {
  const std::string last = signed_headers(call, kExample, sha256_hex(call.body), "20130524T000000Z").back();
  return last.substr(last.find("Signature=") + 10);
}

TEST(StoreS3Sign, ARangeOfAnObject) {
  EXPECT_EQ(signature_of({.method = "GET", .key = "test.txt", .headers = {{"range", "bytes=0-9"}}}),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

TEST(StoreS3Sign, AnObjectWithASignInItsName) {
  EXPECT_EQ(signature_of(
                {.method = "PUT",
                 .key = "test$file.text",
                 .headers = {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
                 .body = bytes_of("Welcome to Amazon S3.")}),
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
}

TEST(StoreS3Sign, AQueryWithoutAValue) {
  EXPECT_EQ(signature_of({.method = "GET", .query = {{"lifecycle", ""}}}),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

TEST(StoreS3Sign, AQueryThatIsSorted) {
  EXPECT_EQ(signature_of({.method = "GET", .query = {{"prefix", "J"}, {"max-keys", "2"}}}),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

TEST(StoreS3Sign, SumsAreWrittenAsTheServerWantsThem) {
  EXPECT_EQ(sha256_hex({}), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(base64("a"), "YQ==");
  EXPECT_EQ(base64("abc"), "YWJj");
  EXPECT_EQ(uri_encoded("a/b c~\xc3\xa4", true), "a/b%20c~%C3%A4");
  EXPECT_EQ(uri_encoded("a/b", false), "a%2Fb");
}

}  // namespace
}  // namespace twinpod::store
