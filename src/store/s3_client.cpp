#include "store/s3_client.hpp"

#include <curl/curl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <ctime>
#include <pugixml.hpp>
#include <random>
#include <thread>

#include "store/files.hpp"

namespace twinpod::store {
namespace {

constexpr int kTries = 7;
constexpr double kFirstPauseSeconds = 0.1;  // twice as long each time: 6 s in all
constexpr std::string_view kToken = "x-amz-meta-twinpod-token";

bool is_good(const HttpAnswer& answer) { return answer.status >= 200 && answer.status <= 299; }

bool is_worth_another_try(const HttpAnswer& answer) {
  return answer.status == 0 || answer.status == 429 || (answer.status >= 500 && answer.status != 501);
}

// So that ranks that were turned away together do not come back together.
void pause_before_try(int tries) {
  thread_local std::minstd_rand random(std::random_device{}());
  const double share = std::uniform_real_distribution<double>(0.5, 1)(random);
  std::this_thread::sleep_for(std::chrono::duration<double>(kFirstPauseSeconds * (1 << (tries - 1)) * share));
}

std::string new_token() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}{:08x}", random(), random(), random());
}

std::string header(const HttpAnswer& answer, const std::string& name) {
  const auto found = answer.headers.find(name);
  return found == answer.headers.end() ? "" : found->second;
}

std::string now_text() { return fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(std::time(nullptr))); }

pugi::xml_document parsed(const std::string& body) {
  pugi::xml_document document;
  document.load_buffer(body.data(), body.size());
  return document;
}

// S3 may say 200 and then, in the body, that it failed.
std::string error_in(const std::string& body) {
  const pugi::xml_document document = parsed(body);
  const pugi::xml_node error = document.child("Error");
  if (!error) return "";
  return fmt::format("{}: {}", error.child_value("Code"), error.child_value("Message"));
}

std::string parts_xml(const std::vector<S3Part>& parts) {
  std::string text = "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (const S3Part& part : parts) {
    text += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag><ChecksumSHA256>{}</ChecksumSHA256></Part>",
                        part.number, part.etag, part.sha256_base64);
  }
  return text + "</CompleteMultipartUpload>";
}

}  // namespace

std::string S3Client::url(const std::string& key) const { return fmt::format("s3://{}/{}", address_.bucket, key); }

tl::unexpected<Error> S3Client::failed(const std::string& key, std::string_view what, const HttpAnswer& answer) const {
  if (answer.status == 404 && answer.body.find("NoSuchBucket") == std::string::npos) {
    return io_error(url(key), what, ENOENT);
  }
  if (answer.status == 412 || answer.status == 409) return io_error(url(key), what, EEXIST);
  const std::string said = answer.status == 0 ? answer.problem : error_in(answer.body);
  Error error{ErrorKind::infeasible, fmt::format("cannot be {}: ", what), "", url(key), 0, 0};
  error.message += answer.status == 0
                       ? fmt::format("no answer of {} after {} tries: {}", address_.endpoint, kTries, said)
                       : fmt::format("{} says {}{}", address_.endpoint, answer.status, said.empty() ? "" : ", " + said);
  if (answer.status == 403) error.hint = "look at AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
  return tl::unexpected(std::move(error));
}

S3Client::Tried S3Client::call(const S3Call& call) {
  const std::string sum = sha256_hex(call.body);
  Tried tried;
  for (int tries = 1;; ++tries) {
    tried.answer = http_.call({.method = call.method,
                               .url = url_of(call, address_),
                               .headers = signed_headers(call, address_, sum, now_text()),
                               .body = call.body,
                               .into = call.into});
    if (!is_worth_another_try(tried.answer) || tries == kTries) return tried;
    tried.unknown = true;
    pause_before_try(tries);
  }
}

Result<std::optional<S3Object>> S3Client::find(const std::string& key) {
  const HttpAnswer answer = call({.method = "HEAD", .key = key}).answer;
  if (answer.status == 404) return std::nullopt;
  if (!is_good(answer)) return failed(key, "opened", answer);
  S3Object object;
  const std::string length = header(answer, "content-length");
  std::from_chars(length.data(), length.data() + length.size(), object.bytes);
  object.etag = header(answer, "etag");
  object.token = header(answer, std::string(kToken));
  object.modified_s = std::max<std::int64_t>(0, curl_getdate(header(answer, "last-modified").c_str(), nullptr));
  return object;
}

Result<std::size_t> S3Client::read(const std::string& key, const std::string& etag, std::int64_t offset,
                                   std::span<std::byte> into) {
  if (into.empty()) return 0;
  S3Call get{.method = "GET", .key = key, .into = into};
  get.headers["range"] = fmt::format("bytes={}-{}", offset, offset + static_cast<std::int64_t>(into.size()) - 1);
  if (!etag.empty()) get.headers["if-match"] = etag;
  const HttpAnswer answer = call(get).answer;
  if (answer.status == 416) return 0;  // behind the end
  // 200 would be the whole object, from its first byte on.
  const bool right = answer.status == 206 || (answer.status == 200 && offset == 0);
  if (!right) return failed(key, "read", answer);
  return answer.moved;
}

bool S3Client::carries(const std::string& key, const std::string& token, std::int64_t bytes) {
  const Result<std::optional<S3Object>> object = find(key);
  return object && *object && (*object)->token == token && (*object)->bytes == bytes;
}

Result<void> S3Client::put(const std::string& key, std::span<const std::byte> bytes, bool only_new) {
  const std::string token = new_token();
  S3Call put{.method = "PUT", .key = key, .body = bytes};
  put.headers[std::string(kToken)] = token;
  put.headers["x-amz-checksum-sha256"] = base64(sha256(bytes));
  if (only_new) put.headers["if-none-match"] = "*";
  Tried tried = call(put);
  if (only_new && tried.answer.status == 501) {  // the server knows no conditions: look first, as well as one can
    const Result<std::optional<S3Object>> there = find(key);
    if (!there) return tl::unexpected(there.error());
    if (*there) return io_error(url(key), "created", EEXIST);
    put.headers.erase("if-none-match");
    tried = call(put);
  }
  if (is_good(tried.answer)) return {};
  if (tried.unknown && carries(key, token, static_cast<std::int64_t>(bytes.size()))) return {};
  return failed(key, only_new ? "created" : "written", tried.answer);
}

Result<void> S3Client::remove(const std::string& key) {
  const HttpAnswer answer = call({.method = "DELETE", .key = key}).answer;
  if (is_good(answer) || answer.status == 404) return {};
  return failed(key, "removed", answer);
}

Result<S3Names> S3Client::list(const std::string& prefix, int limit) {
  S3Names names;
  S3Call get{.method = "GET", .query = {{"list-type", "2"}, {"delimiter", "/"}, {"prefix", prefix}}};
  if (limit > 0) get.query["max-keys"] = fmt::to_string(limit);
  while (true) {
    const HttpAnswer answer = call(get).answer;
    if (!is_good(answer)) return failed(prefix, "listed", answer);
    const pugi::xml_document document = parsed(answer.body);
    const pugi::xml_node result = document.child("ListBucketResult");
    if (!result) return failed(prefix, "listed", answer);
    for (const pugi::xml_node one : result.children("Contents")) names.keys.emplace_back(one.child_value("Key"));
    for (const pugi::xml_node one : result.children("CommonPrefixes")) {
      names.prefixes.emplace_back(one.child_value("Prefix"));
    }
    const std::string next = result.child_value("NextContinuationToken");
    const bool more = std::string_view(result.child_value("IsTruncated")) == "true";
    if (!more || limit > 0) return names;
    if (next.empty() || next == get.query["continuation-token"]) return failed(prefix, "listed", answer);
    get.query["continuation-token"] = next;
  }
}

// One that was begun twice is a leftover, which uploads() finds.
Result<S3Upload> S3Client::begin_upload(const std::string& key) {
  S3Upload upload{key, "", new_token()};
  S3Call post{.method = "POST", .key = key, .query = {{"uploads", ""}}};
  post.headers[std::string(kToken)] = upload.token;
  post.headers["x-amz-checksum-algorithm"] = "SHA256";
  const HttpAnswer answer = call(post).answer;
  if (!is_good(answer)) return failed(key, "written", answer);
  upload.id = parsed(answer.body).child("InitiateMultipartUploadResult").child_value("UploadId");
  if (upload.id.empty()) return failed(key, "written", answer);
  return upload;
}

Result<S3Part> S3Client::upload_part(const S3Upload& upload, int number, std::span<const std::byte> bytes) {
  S3Call put{.method = "PUT", .key = upload.key, .body = bytes};
  put.query = {{"partNumber", fmt::to_string(number)}, {"uploadId", upload.id}};
  S3Part part{number, "", base64(sha256(bytes))};
  put.headers["x-amz-checksum-sha256"] = part.sha256_base64;
  const HttpAnswer answer = call(put).answer;
  if (!is_good(answer)) return failed(upload.key, "written", answer);
  part.etag = header(answer, "etag");
  return part;
}

Result<void> S3Client::end_upload(const S3Upload& upload, const std::vector<S3Part>& parts, std::int64_t bytes) {
  const std::string body = parts_xml(parts);
  const HttpAnswer answer =
      call({.method = "POST", .key = upload.key, .query = {{"uploadId", upload.id}}, .body = bytes_of(body)}).answer;
  const bool said_so = is_good(answer) && error_in(answer.body).empty();
  // Whatever it said, what counts is what is there.
  if (carries(upload.key, upload.token, bytes)) return {};
  if (!said_so) return failed(upload.key, "written", answer);
  Error error{ErrorKind::infeasible,
              fmt::format("was written, but is no object of {} bytes now", bytes),
              "",
              url(upload.key),
              0,
              0};
  return tl::unexpected(std::move(error));
}

Result<void> S3Client::abort_upload(const S3Upload& upload) {
  const HttpAnswer answer = call({.method = "DELETE", .key = upload.key, .query = {{"uploadId", upload.id}}}).answer;
  if (is_good(answer) || answer.status == 404) return {};
  return failed(upload.key, "removed", answer);
}

Result<std::vector<S3Upload>> S3Client::uploads(const std::string& prefix) {
  std::vector<S3Upload> found;
  S3Call get{.method = "GET", .query = {{"uploads", ""}, {"prefix", prefix}}};
  while (true) {
    const HttpAnswer answer = call(get).answer;
    if (!is_good(answer)) return failed(prefix, "listed", answer);
    const pugi::xml_document document = parsed(answer.body);
    const pugi::xml_node result = document.child("ListMultipartUploadsResult");
    for (const pugi::xml_node one : result.children("Upload")) {
      const std::string key = one.child_value("Key");
      if (key.starts_with(prefix)) found.push_back({key, one.child_value("UploadId"), ""});
    }
    const std::string next = result.child_value("NextKeyMarker");
    const std::string next_id = result.child_value("NextUploadIdMarker");
    const bool more = std::string_view(result.child_value("IsTruncated")) == "true";
    const bool moved = next != get.query["key-marker"] || next_id != get.query["upload-id-marker"];
    if (!more || !moved) return found;
    get.query["key-marker"] = next;
    get.query["upload-id-marker"] = next_id;
  }
}

}  // namespace twinpod::store
