// Signatures of requests to S3 (AWS Signature Version 4,
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html). libcurl 7.88 of Debian 12 can sign,
// but neither sorts nor encodes the query, which lists and uploads need.
//
//     S3Call call{.method = "GET", .key = "runs/a/latest"};
//     std::vector<std::string> headers = signed_headers(call, address, sha256_hex({}), "20130524T000000Z");
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace twinpod::store {

struct S3Address {
  std::string endpoint;  // "http://127.0.0.1:9000"
  std::string bucket;    // empty: it is in the endpoint's name
  std::string region = "us-east-1";
  std::string access_key;
  std::string secret_key;
  std::string session_token = {};  // empty: none
};

struct S3Call {
  std::string method;
  std::string key = {};                             // of the object; empty: the bucket is meant
  std::map<std::string, std::string> query = {};    // not yet encoded
  std::map<std::string, std::string> headers = {};  // names in lower case
  std::span<const std::byte> body = {};
  std::span<std::byte> into = {};
};

std::string url_of(const S3Call& call, const S3Address& address);

// Those of the call and those of its signature, "name: value". `time` is UTC.
std::vector<std::string> signed_headers(const S3Call& call, const S3Address& address, const std::string& body_sha256,
                                        const std::string& time);

// All but letters, digits and -._~ (and '/', when it is kept) as %2F.
std::string uri_encoded(std::string_view text, bool keep_slashes);

using Sha256 = std::string;  // 32 bytes
Sha256 sha256(std::span<const std::byte> bytes);
std::string hex(std::string_view bytes);
std::string base64(std::string_view bytes);
std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace twinpod::store
