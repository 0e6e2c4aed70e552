#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "store/checksum.hpp"
#include "store/files.hpp"
#include "store/manifest.hpp"
#include "store/safetensors.hpp"

namespace twinpod::store {
namespace {

using Json = nlohmann::ordered_json;  // to write: keys as in docs/store.md
using ReadJson = nlohmann::json;

// The text is this, 16 hexadecimal digits, kMiddle, the body, kEnd. The digits are the checksum of the text with zeros
// in their place.
constexpr std::string_view kStart = "{\"twinpod_checkpoint\":1,\"checksum\":\"";
constexpr std::string_view kVersionKey = "{\"twinpod_checkpoint\":";  // in front of it in every version
constexpr std::string_view kMiddle = "\",\"body\":";
constexpr std::string_view kEnd = "}\n";
constexpr std::size_t kDigits = 16;
// So that sums of them cannot overflow, and one extent fits into memory.
constexpr std::int64_t kMaxExtentBytes = 1 << 30;
constexpr std::int64_t kMaxShardBytes = std::int64_t{1} << 60;
constexpr std::string_view kZeros = "0000000000000000";

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// -1: no hexadecimal digit as we write them.
int digit_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return -1;
}

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char digit) { return digit_value(digit) >= 0; });
}

std::string bytes_of_hex(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(digit_value(text[i]) * 16 + digit_value(text[i + 1]));
  }
  return bytes;
}

Json to_json(const TrainingState& state) {
  Json random = Json::object();
  for (const auto& [name, bytes] : state.random) random[name] = hex_of(bytes);
  Json values = Json::object();
  for (const auto& [name, text] : state.values) values[name] = text;
  return {{"step", state.step}, {"samples", state.samples}, {"random", random}, {"values", values}};
}

Json to_json(const Shard& shard) {
  std::string checksums;
  for (const std::uint64_t sum : shard.checksums) checksums += fmt::format("{:016x}", sum);
  return {{"file", shard.file}, {"bytes", shard.bytes}, {"checksums", checksums}};
}

Json to_json(const StoredTensor& tensor) {
  Json regions = Json::array();
  for (const StoredRegion& stored : tensor.regions) {
    regions.push_back({{"shard", stored.shard},
                       {"offset", stored.region.offset},
                       {"size", stored.region.size},
                       {"begin", stored.begin}});
  }
  return {{"name", tensor.name}, {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"regions", regions}};
}

// Reads fields and remembers the first that was wrong, so that the code that asks needs not.
class Reader {
 public:
  const std::string& problem() const { return problem_; }
  void refuse(const std::string& what) {
    if (problem_.empty()) problem_ = what;
  }

  std::int64_t count(const ReadJson& object, const char* key) {
    const ReadJson* value = field(object, key);
    const bool good = value != nullptr && value->is_number_unsigned() && value->get<std::uint64_t>() <= INT64_MAX;
    if (!good) refuse(fmt::format("{} is no count", key));
    return good ? value->get<std::int64_t>() : 0;
  }
  std::string text(const ReadJson& object, const char* key) {
    const ReadJson* value = field(object, key);
    const bool good = value != nullptr && value->is_string();
    if (!good) refuse(fmt::format("{} is no text", key));
    return good ? value->get<std::string>() : "";
  }
  std::string as_text(const ReadJson& value, const std::string& name) {
    if (!value.is_string()) refuse(fmt::format("{} is no text", name));
    return value.is_string() ? value.get<std::string>() : "";
  }
  Dims dims(const ReadJson& object, const char* key) {
    Dims dims;
    for (const ReadJson& value : list(object, key)) {
      const bool good = value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX;
      if (!good) refuse(fmt::format("{} has an entry that is no count", key));
      dims.push_back(good ? value.get<std::int64_t>() : 0);
    }
    return dims;
  }
  const ReadJson& list(const ReadJson& object, const char* key) {
    const ReadJson* value = field(object, key);
    if (value != nullptr && value->is_array()) return *value;
    refuse(fmt::format("{} is no list", key));
    return no_list_;
  }
  const ReadJson& map(const ReadJson& object, const char* key) {
    const ReadJson* value = field(object, key);
    if (value != nullptr && value->is_object()) return *value;
    refuse(fmt::format("{} is no object", key));
    return no_map_;
  }

 private:
  static const ReadJson* field(const ReadJson& object, const char* key) {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
  }

  std::string problem_;
  const ReadJson no_list_ = ReadJson::array();
  const ReadJson no_map_ = ReadJson::object();
};

TrainingState read_state(Reader& reader, const ReadJson& body) {
  const ReadJson& json = reader.map(body, "state");
  TrainingState state;
  state.step = reader.count(json, "step");
  state.samples = reader.count(json, "samples");
  const ReadJson& random = reader.map(json, "random");
  for (const auto& [name, value] : random.items()) {
    const std::string text = reader.as_text(value, name);
    if (text.size() % 2 != 0 || !is_hex(text)) reader.refuse(fmt::format("random state {} is not hexadecimal", name));
    state.random[name] = bytes_of_hex(text);
  }
  const ReadJson& values = reader.map(json, "values");
  for (const auto& [name, value] : values.items()) state.values[name] = reader.as_text(value, name);
  return state;
}

// It must neither lead out of the folder nor be that of a file which is no shard.
bool is_shard_name(std::string_view name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) { return c != '/' && c > ' ' && c != '\x7f'; });
  return plain && !name.empty() && name.front() != '.' && !name.starts_with("manifest.json");
}

Shard read_shard(Reader& reader, const ReadJson& json, std::int64_t extent_bytes) {
  Shard shard{reader.text(json, "file"), reader.count(json, "bytes"), {}};
  if (shard.bytes > kMaxShardBytes) reader.refuse(fmt::format("{} cannot have {} bytes", shard.file, shard.bytes));
  if (!is_shard_name(shard.file)) reader.refuse(fmt::format("\"{}\" is no name of a shard", shard.file));
  const std::string text = reader.text(json, "checksums");
  const std::int64_t extents = num_extents(shard.bytes, extent_bytes);
  if (!is_hex(text) || text.size() % kDigits != 0 || static_cast<std::int64_t>(text.size() / kDigits) != extents) {
    reader.refuse(fmt::format("{} has {} extents, but other checksums", shard.file, extents));
    return shard;
  }
  for (std::size_t i = 0; i < text.size(); i += kDigits) {
    std::uint64_t sum = 0;
    for (const char digit : text.substr(i, kDigits)) sum = sum << 4 | static_cast<std::uint64_t>(digit_value(digit));
    shard.checksums.push_back(sum);
  }
  return shard;
}

StoredRegion read_region(Reader& reader, const ReadJson& json, const StoredTensor& tensor, const Manifest& manifest) {
  StoredRegion stored;
  const std::int64_t shard = reader.count(json, "shard");
  stored.region = {reader.dims(json, "offset"), reader.dims(json, "size")};
  stored.begin = reader.count(json, "begin");
  if (shard >= static_cast<std::int64_t>(manifest.shards.size())) {
    reader.refuse(fmt::format("tensor {} lies in shard {} of {}", tensor.name, shard, manifest.shards.size()));
    return stored;
  }
  stored.shard = static_cast<int>(shard);
  if (!lies_in(stored.region, tensor.shape)) {
    reader.refuse(fmt::format("tensor {} {} has no region {}", tensor.name, to_string(tensor.shape),
                              to_string(stored.region.size)));
    return stored;
  }
  const std::int64_t bytes = num_elements(stored.region.size) * element_bytes(tensor.dtype);
  const std::int64_t end = manifest.shards[static_cast<std::size_t>(shard)].bytes;
  if (stored.begin > end || bytes > end - stored.begin) {
    reader.refuse(fmt::format("tensor {} ends behind its shard", tensor.name));
  }
  return stored;
}

StoredTensor read_tensor(Reader& reader, const ReadJson& json, const Manifest& manifest) {
  StoredTensor tensor{reader.text(json, "name"), reader.text(json, "dtype"), reader.dims(json, "shape"), {}};
  const int element = element_bytes(tensor.dtype);
  if (element == 0) reader.refuse(fmt::format("tensor {} has the unknown dtype {}", tensor.name, tensor.dtype));
  const std::int64_t elements = num_elements(tensor.shape);
  if (elements < 0 || elements > INT64_MAX / 16) reader.refuse(fmt::format("tensor {} is too large", tensor.name));
  if (!reader.problem().empty()) return tensor;
  for (const ReadJson& region : reader.list(json, "regions")) {
    tensor.regions.push_back(read_region(reader, region, tensor, manifest));
  }
  return tensor;
}

std::string sum_digits(std::string_view text) {
  std::string blank(text);
  blank.replace(kStart.size(), kDigits, kZeros);
  return fmt::format("{:016x}", checksum(bytes_of(blank)));
}

tl::unexpected<Error> bad_manifest(const std::string& path, std::string message) {
  Error error{ErrorKind::infeasible, std::move(message), "", path, 0, 0};
  return tl::unexpected(std::move(error));
}

// The body, when every byte is as it was written.
Result<std::string_view> checked_body(std::string_view text, const std::string& path) {
  const std::size_t around = kStart.size() + kDigits + kMiddle.size() + kEnd.size();
  if (const std::int64_t version = other_version(text); version != 0) {
    return bad_manifest(path, fmt::format("is of version {} of the format, but this twinpod knows version {}", version,
                                          kManifestVersion));
  }
  if (text.size() < around || !text.starts_with(kStart)) {
    return bad_manifest(path, fmt::format("is no manifest of version {}", kManifestVersion));
  }
  const std::string_view found = text.substr(kStart.size(), kDigits);
  if (const std::string wanted = sum_digits(text); found != wanted) {
    return bad_manifest(path, fmt::format("is damaged: its checksum is {}, it says {}", wanted, found));
  }
  return text.substr(around - kEnd.size(), text.size() - around);
}

}  // namespace

std::string to_text(const Manifest& manifest) {
  Json body = {
      {"number", manifest.number}, {"extent_bytes", manifest.extent_bytes}, {"state", to_json(manifest.state)}};
  body["shards"] = Json::array();
  for (const Shard& shard : manifest.shards) body["shards"].push_back(to_json(shard));
  body["tensors"] = Json::array();
  for (const StoredTensor& tensor : manifest.tensors) body["tensors"].push_back(to_json(tensor));
  // Text that is not UTF-8 must not end the program.
  const std::string inner = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string text = fmt::format("{}{}{}{}{}", kStart, kZeros, kMiddle, inner, kEnd);
  return text.replace(kStart.size(), kDigits, sum_digits(text));
}

std::int64_t other_version(std::string_view text) {
  if (!text.starts_with(kVersionKey)) return 0;
  std::int64_t version = 0;
  const char* first = text.data() + kVersionKey.size();
  const auto [last, error] = std::from_chars(first, text.data() + text.size(), version);
  if (error != std::errc() || version <= 0 || version == kManifestVersion) return 0;
  const auto digits = static_cast<std::size_t>(last - first);
  const std::string ours =
      fmt::format("{}{}{}", kVersionKey, kManifestVersion, text.substr(kVersionKey.size() + digits));
  const bool flipped = ours.starts_with(kStart) && ours.size() >= kStart.size() + kDigits &&
                       ours.substr(kStart.size(), kDigits) == sum_digits(ours);
  return flipped ? 0 : version;
}

Result<Manifest> parse_manifest(std::string_view text, const std::string& path) {
  const Result<std::string_view> inner = checked_body(text, path);
  if (!inner) return tl::unexpected(inner.error());
  const ReadJson body = ReadJson::parse(*inner, nullptr, false);
  Reader reader;
  Manifest manifest;
  manifest.number = reader.count(body, "number");
  manifest.extent_bytes = reader.count(body, "extent_bytes");
  if (manifest.extent_bytes < 1 || manifest.extent_bytes > kMaxExtentBytes) {
    reader.refuse(fmt::format("extent_bytes is {}, not 1 to {}", manifest.extent_bytes, kMaxExtentBytes));
  }
  if (reader.problem().empty()) manifest.state = read_state(reader, body);
  if (reader.problem().empty()) {
    for (const ReadJson& shard : reader.list(body, "shards")) {
      manifest.shards.push_back(read_shard(reader, shard, manifest.extent_bytes));
    }
    for (const ReadJson& tensor : reader.list(body, "tensors")) {
      manifest.tensors.push_back(read_tensor(reader, tensor, manifest));
    }
  }
  const bool sorted = std::is_sorted(manifest.tensors.begin(), manifest.tensors.end(),
                                     [](const StoredTensor& a, const StoredTensor& b) { return a.name < b.name; });
  if (!sorted) reader.refuse("the tensors are not sorted by name");
  if (!reader.problem().empty()) return bad_manifest(path, "is no manifest: " + reader.problem());
  return manifest;
}

}  // namespace twinpod::store
