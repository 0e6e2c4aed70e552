#include "store/open_files.hpp"

#include <fmt/format.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>

#include "core/nearest.hpp"
#include "store/direct_files.hpp"
#include "store/s3_files.hpp"

namespace twinpod::store {
namespace {

// f_type of statfs(2) of file systems that other hosts see, too: NFS, SMB (three of them), Lustre, Ceph, GPFS, BeeGFS,
// FUSE (which most others use), 9p.
constexpr std::array<std::uint32_t, 10> kSharedTypes = {0x6969,     0x517B,     0xFF534D42, 0xFE534D42, 0x0BD00BD0,
                                                        0x00C36400, 0x47504653, 0x19830326, 0x65735546, 0x01021997};

// A folder that is not there yet will be where the nearest one above it is.
std::string tier_of_folder(std::string path) {
  struct statfs status {};
  while (::statfs(path.c_str(), &status) != 0) {
    const std::size_t slash = path.find_last_of('/');
    if (path == "." || path == "/") return "local";
    path = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  }
  const auto type = static_cast<std::uint32_t>(status.f_type);
  return std::find(kSharedTypes.begin(), kSharedTypes.end(), type) == kSharedTypes.end() ? "local" : "shared";
}

constexpr std::string_view kS3 = "s3://";

// The first that is set and not empty.
std::string environment(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return "";
}

// "?endpoint=http://127.0.0.1:9000&region=eu-west-1" without the question mark.
Result<void> read_query(const std::string& address, std::string_view query, S3Address& s3) {
  std::map<std::string, std::string*> known = {{"endpoint", &s3.endpoint}, {"region", &s3.region}};
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), one.size() + 1));
    const std::size_t equals = one.find('=');
    const std::string key(one.substr(0, equals));
    if (!known.contains(key) || equals == std::string_view::npos) {
      const std::string nearest = nearest_name(key, {"endpoint", "region"});
      return input_error(fmt::format("{}: found `{}`, expected endpoint=URL or region=NAME", address, one),
                         nearest.empty() ? "" : fmt::format("did you mean {}?", nearest));
    }
    *known[key] = one.substr(equals + 1);
  }
  return {};
}

Result<void> check(const std::string& address, const S3Address& s3) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'; };
  if (s3.bucket.empty() || !std::all_of(s3.bucket.begin(), s3.bucket.end(), plain)) {
    return input_error(
        fmt::format("{}: found `{}`, expected a bucket: lower-case letters, digits, - and .", address, s3.bucket),
        "s3://models/runs/a");
  }
  if (!s3.endpoint.starts_with("http://") && !s3.endpoint.starts_with("https://")) {
    return input_error(
        fmt::format("{}: found the endpoint `{}`, expected http://... or https://...", address, s3.endpoint),
        fmt::format("did you mean http://{}?", s3.endpoint));
  }
  if (!s3.access_key.empty() && !s3.secret_key.empty()) return {};
  return input_error(fmt::format("{}: who asks is not said", address),
                     "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
}

Result<OpenedStore> open_s3(const std::string& address) {
  const std::string_view text = std::string_view(address).substr(kS3.size());
  const std::size_t question = text.find('?');
  const std::string_view path = text.substr(0, question);
  const std::size_t slash = std::min(path.find('/'), path.size());
  S3Address s3;
  s3.bucket = path.substr(0, slash);
  const std::string region = environment({"AWS_REGION", "AWS_DEFAULT_REGION"});
  if (!region.empty()) s3.region = region;
  s3.endpoint = environment({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  s3.access_key = environment({"AWS_ACCESS_KEY_ID"});
  s3.secret_key = environment({"AWS_SECRET_ACCESS_KEY"});
  s3.session_token = environment({"AWS_SESSION_TOKEN"});
  if (question != std::string_view::npos) {
    if (Result<void> read = read_query(address, text.substr(question + 1), s3); !read)
      return tl::unexpected(read.error());
  }
  if (s3.endpoint.empty()) s3.endpoint = fmt::format("https://s3.{}.amazonaws.com", s3.region);
  while (s3.endpoint.ends_with('/')) s3.endpoint.pop_back();
  if (Result<void> good = check(address, s3); !good) return tl::unexpected(good.error());
  std::string root(path.substr(std::min(path.size(), slash + 1)));
  while (root.ends_with('/')) root.pop_back();
  const std::string shown = fmt::format("{}{}{}{}", kS3, s3.bucket, root.empty() ? "" : "/", root);
  return OpenedStore{std::make_shared<S3Files>(std::move(s3)), root.empty() ? "." : root, shown, "object"};
}

}  // namespace

Result<OpenedStore> open_files(const std::string& address) {
  if (address.starts_with(kS3)) return open_s3(address);
  std::string root = address;
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  if (root.empty()) return input_error("the address of a store is empty", "write a folder, such as runs/a");
  return OpenedStore{std::make_shared<DirectFiles>(DirectOptions{.root = root}), root, root, tier_of_folder(root)};
}

}  // namespace twinpod::store
