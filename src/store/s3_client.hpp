// What the store asks of an S3-compatible server, each call tried again while that helps.
//
//     S3Client client(address);
//     Result<std::optional<S3Object>> object = client.find("runs/a/latest");
//
// A call that got no answer, or one that says "later" (5xx, 429), is tried again with growing pauses. Calls that may be
// made twice are simply made twice. Of those that may not (a new object, the end of an upload) the outcome of the first
// is found out by what the object carries: a token that was drawn for it. Nothing is taken for done that is not known
// to be.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "store/http.hpp"
#include "store/s3_sign.hpp"

namespace twinpod::store {

struct S3Object {
  std::int64_t bytes = 0;
  std::string etag;
  std::string token;  // of who wrote it; empty: not by us
  std::int64_t modified_s = 0;
};

struct S3Upload {
  std::string key;
  std::string id;
  std::string token;
};

// A part of an upload that the server has.
struct S3Part {
  int number = 0;
  std::string etag;
  std::string sha256_base64;
};

struct S3Names {
  std::vector<std::string> keys;      // below the prefix
  std::vector<std::string> prefixes;  // up to the next slash, with it
};

// Errors name `s3://bucket/key`. May be used by several threads at once.
class S3Client {
 public:
  explicit S3Client(S3Address address) : address_(std::move(address)) {}

  // nullopt: there is no such object.
  Result<std::optional<S3Object>> find(const std::string& key);
  // Refused when the object is another than `etag` by now.
  Result<std::size_t> read(const std::string& key, const std::string& etag, std::int64_t offset,
                           std::span<std::byte> into);
  // `only_new`: refused with EEXIST when the name is taken.
  Result<void> put(const std::string& key, std::span<const std::byte> bytes, bool only_new);
  Result<void> remove(const std::string& key);
  // Keys that begin with the prefix, cut at the next slash; at most `limit`, 0: all of them.
  Result<S3Names> list(const std::string& prefix, int limit = 0);

  Result<S3Upload> begin_upload(const std::string& key);
  Result<S3Part> upload_part(const S3Upload& upload, int number, std::span<const std::byte> bytes);
  // `bytes` is what the object must have then.
  Result<void> end_upload(const S3Upload& upload, const std::vector<S3Part>& parts, std::int64_t bytes);
  Result<void> abort_upload(const S3Upload& upload);
  Result<std::vector<S3Upload>> uploads(const std::string& prefix);

  std::string url(const std::string& key) const;

 private:
  struct Tried {
    HttpAnswer answer;
    bool unknown = false;  // an earlier try may have been done
  };
  Tried call(const S3Call& call);
  // Whether an object of these bytes carries the token.
  bool carries(const std::string& key, const std::string& token, std::int64_t bytes);
  tl::unexpected<Error> failed(const std::string& key, std::string_view what, const HttpAnswer& answer) const;

  S3Address address_;
  Http http_;
};

}  // namespace twinpod::store
