#include "store/s3_files.hpp"

#include <algorithm>
#include <cerrno>

namespace twinpod::store {
namespace {

constexpr int kPartsOfALength = 1000;

// "./runs/a" and "/runs/a" are "runs/a"; "." and "/" are the bucket.
std::string key_of(const std::string& path) {
  std::size_t first = 0;
  while (first < path.size()) {
    const bool dot = path[first] == '.' && (first + 1 == path.size() || path[first + 1] == '/');
    if (path[first] != '/' && !dot) break;
    ++first;
  }
  return path.substr(first);
}

std::string folder_key(const std::string& path) {
  const std::string key = key_of(path);
  return key.empty() ? "" : key + "/";
}

}  // namespace

std::shared_ptr<S3Files::Open> S3Files::opened(const File& file) {
  const std::lock_guard lock(mutex_);
  const auto found = open_.find(file.id);
  return found == open_.end() ? nullptr : found->second;
}

File S3Files::add(std::shared_ptr<Open> open, const std::string& path) {
  const std::lock_guard lock(mutex_);
  open_[next_id_] = std::move(open);
  return File{next_id_++, path};
}

Result<void> S3Files::put(const std::string& path, std::span<const std::byte> bytes) {
  return client_.put(key_of(path), bytes, false);
}

Result<File> S3Files::create(const std::string& path) {
  const Result<bool> taken = exists(path);
  if (!taken) return tl::unexpected(taken.error());
  if (*taken) return io_error(path, "created", EEXIST);
  auto open = std::make_shared<Open>();
  open->key = key_of(path);
  open->writing = true;
  return add(std::move(open), path);
}

Result<File> S3Files::open(const std::string& path) {
  const Result<std::optional<S3Object>> object = client_.find(key_of(path));
  if (!object) return tl::unexpected(object.error());
  if (!*object) return io_error(path, "opened", ENOENT);
  auto open = std::make_shared<Open>();
  open->key = key_of(path);
  open->object = **object;
  return add(std::move(open), path);
}

Result<void> S3Files::close(const File& file) {
  const std::shared_ptr<Open> open = opened(file);
  if (!open) return {};
  (void)wait(file, 0);  // whoever wanted to know has asked
  {
    const std::lock_guard lock(mutex_);
    open_.erase(file.id);
  }
  for (std::future<Result<S3Part>>& part : open->in_flight) part.wait();
  return open->done || open->upload.id.empty() ? Result<void>() : client_.abort_upload(open->upload);
}

std::size_t S3Files::part_bytes(const Open& open) const {
  return options_.part_bytes << static_cast<unsigned>((open.next_part - 1) / kPartsOfALength);
}

Result<std::size_t> S3Files::write(const File& file, std::int64_t offset, std::span<const std::byte> bytes) {
  const std::shared_ptr<Open> open = opened(file);
  if (!open || !open->writing || open->done) return io_error(file.path, "written", EBADF);
  if (offset != open->bytes) return io_error(file.path, "written out of order", ESPIPE);
  const std::size_t count = std::min(bytes.size(), part_bytes(*open) - open->buffer->size());
  open->buffer->insert(open->buffer->end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count));
  open->bytes += static_cast<std::int64_t>(count);
  if (open->buffer->size() < part_bytes(*open)) return count;
  if (Result<void> sent = send_part(*open); !sent) return tl::unexpected(sent.error());
  return count;
}

Result<void> S3Files::send_part(Open& open) {
  if (open.upload.id.empty()) {
    Result<S3Upload> upload = client_.begin_upload(open.key);
    if (!upload) return tl::unexpected(upload.error());
    open.upload = std::move(*upload);
  }
  if (open.in_flight.size() >= options_.parts_in_flight) {
    if (Result<void> collected = collect_part(open); !collected) return collected;
  }
  const int number = open.next_part++;
  open.in_flight.push_back(std::async(std::launch::async, [this, upload = open.upload, number, buffer = open.buffer] {
    return client_.upload_part(upload, number, *buffer);
  }));
  open.buffer = std::make_shared<Bytes>();
  return {};
}

Result<void> S3Files::collect_part(Open& open) {
  Result<S3Part> part = open.in_flight.front().get();
  open.in_flight.erase(open.in_flight.begin());
  if (!part) return tl::unexpected(part.error());
  open.parts.push_back(std::move(*part));
  return {};
}

Result<void> S3Files::finish(Open& open) {
  if (open.upload.id.empty()) return client_.put(open.key, *open.buffer, true);
  if (!open.buffer->empty()) {
    if (Result<void> sent = send_part(open); !sent) return sent;
  }
  while (!open.in_flight.empty()) {
    if (Result<void> collected = collect_part(open); !collected) return collected;
  }
  return client_.end_upload(open.upload, open.parts, open.bytes);
}

Result<void> S3Files::sync(const File& file) {
  const std::shared_ptr<Open> open = opened(file);
  if (!open || !open->writing || open->done) return io_error(file.path, "brought to the server", EBADF);
  Result<void> finished = finish(*open);
  open->done = finished.has_value();
  return finished;
}

Result<std::size_t> S3Files::read(const File& file, std::int64_t offset, std::span<std::byte> bytes) {
  const std::shared_ptr<Open> open = opened(file);
  if (!open || open->writing || offset < 0) return io_error(file.path, "read", EBADF);
  const std::int64_t left = std::max<std::int64_t>(0, open->object.bytes - offset);
  const std::size_t count = std::min(bytes.size(), static_cast<std::size_t>(left));
  return client_.read(open->key, open->object.etag, offset, bytes.first(count));
}

Result<void> S3Files::begin_read(const File& file, std::int64_t offset, std::span<std::byte> bytes) {
  const std::shared_ptr<Open> open = opened(file);
  if (!open) return io_error(file.path, "read", EBADF);
  open->reads.push_back(
      std::async(std::launch::async, [this, file, offset, bytes] { return read_all(*this, file, offset, bytes); }));
  return {};
}

Result<void> S3Files::wait(const File& file, std::size_t left) {
  const std::shared_ptr<Open> open = opened(file);
  Result<void> done;
  while (open && open->reads.size() > (done ? left : 0)) {
    Result<void> one = open->reads.front().get();
    open->reads.pop_front();
    if (done && !one) done = one;
  }
  return done;
}

Result<std::int64_t> S3Files::size(const File& file) {
  const std::shared_ptr<Open> open = opened(file);
  if (!open) return io_error(file.path, "examined", EBADF);
  return open->writing ? open->bytes : open->object.bytes;
}

Result<void> S3Files::sync_folder(const std::string& /*path*/) { return {}; }

Result<void> S3Files::rename(const std::string& from, const std::string& to) {
  return io_error(from, "renamed to " + to, ENOTSUP);
}

Result<void> S3Files::make_folder(const std::string& path) { return client_.put(folder_key(path), {}, true); }

Result<void> S3Files::remove(const std::string& path) {
  const Result<std::optional<S3Object>> object = client_.find(key_of(path));
  if (!object) return tl::unexpected(object.error());
  return *object ? client_.remove(key_of(path)) : remove_folder(path);
}

Result<void> S3Files::remove_folder(const std::string& path) {
  const Result<std::vector<std::string>> names = list(path);
  if (!names) return tl::unexpected(names.error());
  if (!names->empty()) return io_error(path, "removed", ENOTEMPTY);
  const Result<std::vector<S3Upload>> left = client_.uploads(folder_key(path));
  if (!left) return tl::unexpected(left.error());
  for (const S3Upload& upload : *left) {
    if (Result<void> aborted = client_.abort_upload(upload); !aborted) return aborted;
  }
  return client_.remove(folder_key(path));
}

Result<std::vector<std::string>> S3Files::list(const std::string& path) {
  const std::string folder = folder_key(path);
  const Result<S3Names> found = client_.list(folder);
  if (!found) return tl::unexpected(found.error());
  if (found->keys.empty() && found->prefixes.empty() && !folder.empty()) return io_error(path, "listed", ENOENT);
  std::vector<std::string> names;
  for (const std::string& key : found->keys) {
    if (key.size() > folder.size()) names.push_back(key.substr(folder.size()));
  }
  for (const std::string& prefix : found->prefixes) {
    names.push_back(prefix.substr(folder.size(), prefix.size() - folder.size() - 1));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<bool> S3Files::exists(const std::string& path) {
  const std::string key = key_of(path);
  if (!key.empty()) {
    const Result<std::optional<S3Object>> object = client_.find(key);
    if (!object) return tl::unexpected(object.error());
    if (*object) return true;
  }
  const Result<S3Names> below = client_.list(folder_key(path), 1);
  if (!below) return tl::unexpected(below.error());
  return key.empty() || !below->keys.empty() || !below->prefixes.empty();
}

Result<std::int64_t> S3Files::modified_s(const std::string& path) {
  const Result<std::optional<S3Object>> object = client_.find(key_of(path));
  if (!object) return tl::unexpected(object.error());
  if (!*object) return io_error(path, "examined", ENOENT);
  return (*object)->modified_s;
}

}  // namespace twinpod::store
