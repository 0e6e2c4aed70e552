#include "store/weights_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "store/checkpoints.hpp"
#include "store/extents.hpp"
#include "store/lock.hpp"
#include "store/posix_files.hpp"
#include "store/safetensors.hpp"
#include "store/save.hpp"
#include "store/shard_writer.hpp"

namespace twinpod::store {
namespace {

constexpr std::int64_t kFirstBytes = 8;

std::vector<TensorEntry> entries_to_export(const Manifest& manifest, bool optimizer) {
  std::vector<TensorEntry> entries;
  for (const StoredTensor& tensor : manifest.tensors) {
    if (optimizer || is_weight(tensor.name)) entries.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
  }
  place_tensors(entries);
  return entries;
}

Result<std::int64_t> write_tensors(const ReadFrom& from, const ExportRequest& request, Files& disk, const File& file,
                                   const std::vector<TensorEntry>& entries) {
  const std::string header = safetensors_header(entries, {{"format", "pt"}, {"producer", "twinpod"}});
  if (Result<void> put = write_all(disk, file, 0, bytes_of(header)); !put) return tl::unexpected(put.error());
  auto place = static_cast<std::int64_t>(header.size());
  for (const TensorEntry& entry : entries) {
    const StoredTensor* tensor = find_tensor(from.manifest, entry.name);
    const Result<void> done = for_each_part(from, *tensor, [&](std::span<const std::byte> bytes) {
      Result<void> put = write_all(disk, file, place, bytes);
      place += static_cast<std::int64_t>(bytes.size());
      if (request.on_bytes) request.on_bytes(static_cast<std::int64_t>(bytes.size()));
      return put;
    });
    if (!done) return tl::unexpected(done.error());
  }
  if (Result<void> synced = disk.sync(file); !synced) return tl::unexpected(synced.error());
  return place;
}

// A file of someone else's, open.
struct Source {
  std::string path;
  File file;
  std::int64_t bytes = 0;
  Safetensors content;
};

Result<Source> read_header(Files& disk, const std::string& path, const File& file) {
  Source source{path, file, 0, {}};
  const Result<std::int64_t> size = disk.size(file);
  if (!size) return tl::unexpected(size.error());
  source.bytes = *size;
  Bytes start(static_cast<std::size_t>(std::min(*size, kFirstBytes)));
  if (Result<void> read = read_all(disk, file, 0, start); !read) return tl::unexpected(read.error());
  const Result<std::int64_t> header = safetensors_header_bytes(start, *size, path);
  if (!header) return tl::unexpected(header.error());
  start.resize(static_cast<std::size_t>(*header));
  if (Result<void> read = read_all(disk, file, 0, start); !read) return tl::unexpected(read.error());
  Result<Safetensors> content = parse_safetensors(start, *size, path);
  if (!content) return tl::unexpected(content.error());
  for (const TensorEntry& tensor : content->tensors) {
    if (is_tensor_name(tensor.name)) continue;
    return input_error(fmt::format("{}: `{}` is no name of a tensor here", path, tensor.name),
                       "names are text without quotes, backslashes and control characters");
  }
  source.content = std::move(*content);
  return source;
}

Result<void> check_names(const std::vector<Source>& sources) {
  std::map<std::string, std::string> path_of;
  for (const Source& source : sources) {
    for (const TensorEntry& tensor : source.content.tensors) {
      const auto [found, is_new] = path_of.try_emplace(tensor.name, source.path);
      if (!is_new)
        return input_error(fmt::format("tensor {} is in {} and {}", tensor.name, found->second, source.path));
    }
  }
  return {};
}

Result<Manifest> copy_source(Files& disk, const Source& source, Files& files, const std::string& folder, int shard,
                             const OnBytes& on_bytes) {
  Bytes bytes;
  Result<Shard> written =
      write_shard_file(files, folder, shard_file(shard), kExtentBytes, [&](ShardWriter& writer) -> Result<void> {
        for (std::int64_t begin = 0; begin < source.bytes; begin += kMoveBytes) {
          bytes.resize(static_cast<std::size_t>(std::min(kMoveBytes, source.bytes - begin)));
          if (Result<void> read = read_all(disk, source.file, begin, bytes); !read) return read;
          if (Result<void> added = writer.add(bytes); !added) return added;
          if (on_bytes) on_bytes(static_cast<std::int64_t>(bytes.size()));
        }
        return {};
      });
  if (!written) return tl::unexpected(written.error());
  Manifest manifest;
  manifest.shards.push_back(std::move(*written));
  for (const TensorEntry& tensor : source.content.tensors) {
    const StoredRegion all{0, whole(tensor.shape), source.content.header_bytes + tensor.begin};
    manifest.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {all}});
  }
  return manifest;
}

Result<void> import_as(const std::string& name, Files& disk, const std::vector<Source>& sources, Files& files,
                       const std::string& root, const OnBytes& on_bytes) {
  std::vector<Manifest> parts;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    Result<Manifest> part = copy_source(disk, sources[i], files, root + "/" + name, static_cast<int>(i), on_bytes);
    if (!part) return tl::unexpected(part.error());
    parts.push_back(std::move(*part));
  }
  Result<Manifest> all = joined_manifest(parts);
  if (!all) return tl::unexpected(all.error());
  return commit_checkpoint(files, root, name, std::move(*all));
}

Result<std::string> import_open(Files& disk, const std::vector<Source>& sources, Files& files, const std::string& root,
                                const OnBytes& on_bytes) {
  if (Result<void> good = check_names(sources); !good) return tl::unexpected(good.error());
  if (const auto opened = open_store(files, root); !opened) return tl::unexpected(opened.error());
  const Result<std::unique_ptr<StoreLock>> lock = lock_store(files, root);
  if (!lock) return tl::unexpected(lock.error());
  const Result<std::vector<CheckpointInfo>> infos = list_checkpoints(files, root);
  if (!infos) return tl::unexpected(infos.error());
  if (Result<void> known = check_versions(root, *infos); !known) return tl::unexpected(known.error());
  // Only what earlier saves began and did not end.
  if (Result<void> cleared = clear_unfinished(files, root); !cleared) return tl::unexpected(cleared.error());
  Result<std::string> name = begin_checkpoint(files, root);
  if (!name) return name;
  const Result<void> imported = import_as(*name, disk, sources, files, root, on_bytes);
  if (imported) return name;
  (void)drop_unfinished(files, root, *name);
  return tl::unexpected(imported.error());
}

}  // namespace

bool is_weight(const std::string& tensor) { return !tensor.starts_with(kOptimizerPrefix); }

Result<Exported> export_weights(const ReadFrom& from, const ExportRequest& request) {
  PosixFiles disk;
  const Result<bool> taken = disk.exists(request.path);
  if (!taken) return tl::unexpected(taken.error());
  if (*taken && !request.replace) return io_error(request.path, "created", EEXIST);
  const std::vector<TensorEntry> entries = entries_to_export(from.manifest, request.optimizer);
  const std::string temporary = request.path + std::string(kPartial);
  if (disk.exists(temporary).value_or(false)) (void)disk.remove(temporary);
  const Result<File> file = disk.create(temporary);
  if (!file) return tl::unexpected(file.error());
  const Result<std::int64_t> bytes = write_tensors(from, request, disk, *file, entries);
  const Result<void> closed = disk.close(*file);
  Result<void> named = closed && bytes ? disk.rename(temporary, request.path) : closed;
  if (!bytes || !named) (void)disk.remove(temporary);
  if (!bytes) return tl::unexpected(bytes.error());
  if (!named) return tl::unexpected(named.error());
  return Exported{static_cast<std::int64_t>(entries.size()), *bytes};
}

Result<std::string> import_weights(const std::vector<std::string>& paths, Files& files, const std::string& root,
                                   const OnBytes& on_bytes) {
  PosixFiles disk;
  std::vector<Source> sources;
  Result<std::string> name = std::string();
  for (const std::string& path : paths) {
    const Result<File> file = disk.open(path);
    Result<Source> source = file ? read_header(disk, path, *file) : tl::unexpected(file.error());
    if (source) sources.push_back(std::move(*source));
    if (file && !source) (void)disk.close(*file);
    if (!source && name) name = tl::unexpected(source.error());
  }
  if (name) name = import_open(disk, sources, files, root, on_bytes);
  for (const Source& source : sources) (void)disk.close(source.file);  // they were only read
  return name;
}

}  // namespace twinpod::store
