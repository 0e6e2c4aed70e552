#include "store/s3_sign.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include "store/files.hpp"

namespace twinpod::store {
namespace {

constexpr std::size_t kShaBytes = 32;
constexpr std::size_t kDateDigits = 8;

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, kShaBytes> out{};
  unsigned int length = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), out.data(), &length);
  return {reinterpret_cast<const char*>(out.data()), length};
}

std::string host_of(const std::string& endpoint) {
  const std::size_t slashes = endpoint.find("://");
  return slashes == std::string::npos ? endpoint : endpoint.substr(slashes + 3);
}

std::string path_of(const S3Call& call, const S3Address& address) {
  const std::string bucket = address.bucket.empty() ? "" : "/" + address.bucket;
  return bucket + "/" + uri_encoded(call.key, true);
}

std::string query_of(const S3Call& call) {
  std::string text;
  for (const auto& [name, value] : call.query) {
    text += fmt::format("{}{}={}", text.empty() ? "" : "&", uri_encoded(name, false), uri_encoded(value, false));
  }
  return text;
}

// In the letters of the standard: the string to sign's scope is date/region/s3/aws4_request.
std::string signature(const S3Address& address, const std::string& time, const std::string& scope,
                      const std::string& canonical) {
  const std::string to_sign = fmt::format("AWS4-HMAC-SHA256\n{}\n{}\n{}", time, scope, sha256_hex(bytes_of(canonical)));
  std::string key = hmac("AWS4" + address.secret_key, time.substr(0, kDateDigits));
  for (const std::string& part : {address.region, std::string("s3"), std::string("aws4_request")})
    key = hmac(key, part);
  return hex(hmac(key, to_sign));
}

}  // namespace

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // with the zero that it writes
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  text.pop_back();
  return text;
}

Sha256 sha256(std::span<const std::byte> bytes) {
  std::array<unsigned char, kShaBytes> out{};
  unsigned int length = 0;
  EVP_Digest(bytes.data(), bytes.size(), out.data(), &length, EVP_sha256(), nullptr);
  return {reinterpret_cast<const char*>(out.data()), length};
}

std::string sha256_hex(std::span<const std::byte> bytes) { return hex(sha256(bytes)); }

std::string uri_encoded(std::string_view text, bool keep_slashes) {
  std::string encoded;
  for (const char c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool plain = letter || c == '-' || c == '.' || c == '_' || c == '~' || (keep_slashes && c == '/');
    encoded += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

std::string url_of(const S3Call& call, const S3Address& address) {
  const std::string query = query_of(call);
  return address.endpoint + path_of(call, address) + (query.empty() ? "" : "?" + query);
}

std::vector<std::string> signed_headers(const S3Call& call, const S3Address& address, const std::string& body_sha256,
                                        const std::string& time) {
  std::map<std::string, std::string> headers = call.headers;
  headers["host"] = host_of(address.endpoint);
  headers["x-amz-content-sha256"] = body_sha256;
  headers["x-amz-date"] = time;
  if (!address.session_token.empty()) headers["x-amz-security-token"] = address.session_token;
  std::string lines;
  std::string names;
  std::vector<std::string> all;
  for (const auto& [name, value] : headers) {
    lines += fmt::format("{}:{}\n", name, value);
    names += (names.empty() ? "" : ";") + name;
    all.push_back(fmt::format("{}: {}", name, value));
  }
  const std::string canonical = fmt::format("{}\n{}\n{}\n{}\n{}\n{}", call.method, path_of(call, address),
                                            query_of(call), lines, names, body_sha256);
  const std::string scope = fmt::format("{}/{}/s3/aws4_request", time.substr(0, kDateDigits), address.region);
  all.push_back(fmt::format("authorization: AWS4-HMAC-SHA256 Credential={}/{},SignedHeaders={},Signature={}",
                            address.access_key, scope, names, signature(address, time, scope, canonical)));
  return all;
}

}  // namespace twinpod::store
