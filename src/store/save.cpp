#include "store/save.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include "store/checkpoints.hpp"
#include "store/safetensors.hpp"
#include "store/shard_writer.hpp"

namespace twinpod::store {
namespace {

constexpr std::string_view kCheckpoint = "checkpoint-";
constexpr std::int64_t kMaxLatestBytes = 1000;

// Of a region in a shard: the tensor's name when it is all of it.
std::string entry_name(const HeldRegion& held) {
  return held.region == whole(held.shape) ? held.tensor : held.tensor + to_string(held.region);
}

Result<void> check_held(const HeldRegion& held) {
  const auto bad = [&](const std::string& what) { return input_error(fmt::format("tensor {} {}", held.tensor, what)); };
  const std::int64_t element = element_bytes(held.dtype);
  if (!is_tensor_name(held.tensor)) return input_error(fmt::format("\"{}\" is no name of a tensor", held.tensor));
  if (element == 0) return bad(fmt::format("has the unknown dtype {}", held.dtype));
  if (num_elements(held.shape) < 0) return bad(fmt::format("has the impossible shape {}", to_string(held.shape)));
  if (!lies_in(held.region, held.shape)) return bad(fmt::format("{} has no such region", to_string(held.shape)));
  const std::int64_t expected = num_elements(held.region.size) * element;
  if (static_cast<std::int64_t>(held.bytes.size()) == expected) return {};
  return bad(fmt::format("{}: {} bytes given, {} {} has {}", to_string(held.region), held.bytes.size(), held.dtype,
                         to_string(held.region.size), expected));
}

Result<std::map<std::string, const HeldRegion*>> regions_by_entry(const std::vector<HeldRegion>& regions) {
  std::map<std::string, const HeldRegion*> by_entry;
  for (const HeldRegion& held : regions) {
    if (Result<void> good = check_held(held); !good) return tl::unexpected(good.error());
    if (!by_entry.try_emplace(entry_name(held), &held).second) {
      return input_error(fmt::format("tensor {} is given twice", entry_name(held)));
    }
  }
  return by_entry;
}

Manifest shard_manifest(const std::vector<TensorEntry>& entries,
                        const std::map<std::string, const HeldRegion*>& by_entry, std::int64_t data_begin) {
  std::map<std::string, StoredTensor> tensors;
  for (const TensorEntry& entry : entries) {
    const HeldRegion& held = *by_entry.at(entry.name);
    StoredTensor& tensor =
        tensors.try_emplace(held.tensor, StoredTensor{held.tensor, held.dtype, held.shape, {}}).first->second;
    tensor.regions.push_back({0, held.region, data_begin + entry.begin});
  }
  Manifest manifest;
  for (auto& [name, tensor] : tensors) manifest.tensors.push_back(std::move(tensor));
  return manifest;
}

Result<void> write_content(ShardWriter& writer, const std::string& header, const std::vector<TensorEntry>& entries,
                           const std::map<std::string, const HeldRegion*>& by_entry) {
  if (Result<void> added = writer.add(bytes_of(header)); !added) return added;
  for (const TensorEntry& entry : entries) {
    if (Result<void> added = writer.add(by_entry.at(entry.name)->bytes); !added) return added;
  }
  return {};
}

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
}

Result<void> make_folders(Files& files, const std::string& path) {
  const Result<bool> there = files.exists(path);
  if (!there) return tl::unexpected(there.error());
  if (*there) return {};
  if (Result<void> made = make_folders(files, parent_of(path)); !made) return made;
  if (Result<void> made = files.make_folder(path); !made) return made;
  Result<void> synced = files.sync_folder(parent_of(path));
  // Whoever found it later could not know that its name is not on the disk.
  if (!synced) (void)files.remove(path);
  return synced;
}

}  // namespace

std::string shard_file(int rank) { return fmt::format("shard-{:05}.safetensors", rank); }

std::string checkpoint_name(std::int64_t number) { return fmt::format("{}{:06}", kCheckpoint, number); }

std::int64_t checkpoint_number(const std::string& name) {
  if (!name.starts_with(kCheckpoint)) return -1;
  std::int64_t number = -1;
  const char* end = name.data() + name.size();
  const auto [last, error] = std::from_chars(name.data() + kCheckpoint.size(), end, number);
  return error == std::errc() && last == end && checkpoint_name(number) == name ? number : -1;
}

Result<std::vector<std::string>> open_store(Files& files, const std::string& root) {
  if (Result<void> made = make_folders(files, root); !made) return tl::unexpected(made.error());
  Result<std::vector<std::string>> names = files.list(root);
  // `latest` is written after the first save synced what is above.
  if (!names || std::find(names->begin(), names->end(), kLatestFile) != names->end()) return names;
  if (Result<void> synced = files.sync_folder(parent_of(root)); !synced) return tl::unexpected(synced.error());
  return names;
}

Result<std::string> begin_checkpoint(Files& files, const std::string& root, std::int64_t least_number) {
  const Result<std::vector<std::string>> names = open_store(files, root);
  if (!names) return tl::unexpected(names.error());
  const std::string name = checkpoint_name(std::max(least_number, highest_number(*names) + 1));
  if (Result<void> made = files.make_folder(root + "/" + name); !made) return tl::unexpected(made.error());
  if (Result<void> synced = files.sync_folder(root); !synced) {
    (void)files.remove(root + "/" + name);
    return tl::unexpected(synced.error());
  }
  return name;
}

Result<void> enter_checkpoint(Files& files, const std::string& root, const std::string& name) {
  const std::string folder = root + "/" + name;
  const Result<bool> there = files.exists(folder);
  if (!there) return tl::unexpected(there.error());
  if (*there) return {};
  Result<void> made = files.make_folder(folder);
  if (made) return made;
  const Result<bool> by_another = files.exists(folder);
  return by_another && *by_another ? Result<void>() : made;
}

Result<Manifest> write_shard(Files& files, const std::string& folder, const std::string& file,
                             const std::vector<HeldRegion>& regions, std::int64_t extent_bytes) {
  const auto by_entry = regions_by_entry(regions);
  if (!by_entry) return tl::unexpected(by_entry.error());
  std::vector<TensorEntry> entries;
  for (const auto& [name, held] : *by_entry) entries.push_back({name, held->dtype, held->region.size, 0, 0});
  place_tensors(entries);
  const std::string header = safetensors_header(entries, {{"format", "pt"}, {"producer", "twinpod"}});
  Manifest manifest = shard_manifest(entries, *by_entry, static_cast<std::int64_t>(header.size()));
  manifest.extent_bytes = extent_bytes;

  Result<Shard> shard = write_shard_file(files, folder, file, extent_bytes, [&](ShardWriter& writer) {
    return write_content(writer, header, entries, *by_entry);
  });
  if (!shard) return tl::unexpected(shard.error());
  manifest.shards.push_back(std::move(*shard));
  return manifest;
}

Result<void> commit_checkpoint(Files& files, const std::string& root, const std::string& name, Manifest manifest) {
  manifest.number = checkpoint_number(name);
  const std::string folder = root + "/" + name;
  const std::string text = to_text(manifest);
  // A name that is no text would not come back as it was.
  if (const Result<Manifest> again = parse_manifest(text, folder); !again || *again != manifest) {
    return input_error(again ? "the state of the run holds a name or value that is no text" : again.error().message);
  }
  const std::string path = fmt::format("{}/{}", folder, kManifestFile);
  if (Result<void> put = write_new_file(files, path, bytes_of(text)); !put) return put;
  if (Result<void> synced = files.sync_folder(folder); !synced) {
    (void)files.remove(path);  // it must not be counted among those that are kept
    return synced;
  }
  return move_latest(files, root, name);
}

Result<void> move_latest(Files& files, const std::string& root, const std::string& name) {
  const std::string path = fmt::format("{}/{}", root, kLatestFile);
  if (Result<void> put = write_new_file(files, path, bytes_of(name + "\n")); !put) return put;
  return files.sync_folder(root);
}

Result<std::string> latest_name(Files& files, const std::string& root) {
  const std::string path = fmt::format("{}/{}", root, kLatestFile);
  const Result<bool> there = files.exists(path);
  if (!there) return tl::unexpected(there.error());
  if (!*there) return "";
  const Result<Bytes> text = read_whole(files, path, kMaxLatestBytes);
  if (!text) return tl::unexpected(text.error());
  std::string name(text_of(*text));
  if (name.ends_with('\n')) name.pop_back();
  return name;
}

}  // namespace twinpod::store
