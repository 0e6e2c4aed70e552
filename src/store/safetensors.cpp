#include "store/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "store/files.hpp"

namespace twinpod::store {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kLengthBytes = 8;
constexpr std::int64_t kMaxHeaderBytes = 100'000'000;  // the public library's
constexpr std::string_view kMetadata = "__metadata__";

struct ElementType {
  std::string_view name;
  int bytes;
};
constexpr std::array kElementTypes = {ElementType{"BOOL", 1},    ElementType{"U8", 1},      ElementType{"I8", 1},
                                      ElementType{"F8_E4M3", 1}, ElementType{"F8_E5M2", 1}, ElementType{"I16", 2},
                                      ElementType{"U16", 2},     ElementType{"F16", 2},     ElementType{"BF16", 2},
                                      ElementType{"I32", 4},     ElementType{"U32", 4},     ElementType{"F32", 4},
                                      ElementType{"I64", 8},     ElementType{"U64", 8},     ElementType{"F64", 8}};

tl::unexpected<Error> refuse(const std::string& path, std::string message) {
  Error error{ErrorKind::input, std::move(message), "", path, 0, 0};
  return tl::unexpected(std::move(error));
}

// The last of two equal names would hide the first.
Result<Json> parse_without_doubles(std::string_view text, const std::string& path) {
  std::set<std::pair<int, std::string>> seen;
  std::string twice;
  const Json::parser_callback_t watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      seen.erase(seen.lower_bound({depth + 1, ""}), seen.end());
    }
    if (event == Json::parse_event_t::key && !seen.insert({depth, parsed.get<std::string>()}).second) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  Json json = Json::parse(text, watch, false);
  if (!twice.empty()) return refuse(path, fmt::format("the header has two entries \"{}\"", twice));
  if (!json.is_object()) return refuse(path, "the header is no JSON object");
  return json;
}

bool is_count(const Json& value) { return value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX; }

bool are_counts(const Json& value) { return value.is_array() && std::all_of(value.begin(), value.end(), is_count); }

Result<TensorEntry> parse_entry(const std::string& name, const Json& value, const std::string& path) {
  const auto bad = [&](std::string_view what) {
    return refuse(path, fmt::format("tensor \"{}\" of the header {}", name, what));
  };
  if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string()) return bad("has no dtype");
  if (!value.contains("shape") || !are_counts(value["shape"])) return bad("has no shape");
  if (!value.contains("data_offsets") || !are_counts(value["data_offsets"]) || value["data_offsets"].size() != 2) {
    return bad("has no data_offsets");
  }
  TensorEntry entry{name, value["dtype"].get<std::string>(), value["shape"].get<Dims>(),
                    value["data_offsets"][0].get<std::int64_t>(), value["data_offsets"][1].get<std::int64_t>()};
  const std::int64_t elements = num_elements(entry.shape);
  std::int64_t bytes = 0;
  if (element_bytes(entry.dtype) == 0) return bad(fmt::format("has the unknown dtype {}", entry.dtype));
  if (elements < 0 || __builtin_mul_overflow(elements, element_bytes(entry.dtype), &bytes)) return bad("is too large");
  if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
    return bad(fmt::format("has {} bytes for {} {} of {}", entry.end - entry.begin, entry.dtype, to_string(entry.shape),
                           bytes));
  }
  return entry;
}

Result<void> check_places(const Safetensors& file, std::int64_t file_bytes, const std::string& path) {
  std::int64_t place = 0;
  for (const TensorEntry& tensor : file.tensors) {
    if (tensor.begin != place) {
      return refuse(path, fmt::format("tensor \"{}\" of the header begins at byte {}, the one before ends at {}",
                                      tensor.name, tensor.begin, place));
    }
    place = tensor.end;
  }
  if (file_bytes - file.header_bytes == place) return {};
  return refuse(path, fmt::format("the tensors have {} bytes, but the file has {} after its header", place,
                                  file_bytes - file.header_bytes));
}

}  // namespace

int element_bytes(const std::string& dtype) {
  const auto* found = std::find_if(kElementTypes.begin(), kElementTypes.end(),
                                   [&](const ElementType& type) { return type.name == dtype; });
  return found == kElementTypes.end() ? 0 : found->bytes;
}

bool is_tensor_name(const std::string& name) {
  const auto needs_escape = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; };
  if (name.empty() || name == kMetadata || std::any_of(name.begin(), name.end(), needs_escape)) return false;
  return Json::accept("\"" + name + "\"");  // it is UTF-8
}

void place_tensors(std::vector<TensorEntry>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tuple(-element_bytes(a.dtype), a.name) < std::tuple(-element_bytes(b.dtype), b.name);
  });
  std::int64_t place = 0;
  for (TensorEntry& tensor : tensors) {
    tensor.begin = place;
    place += num_elements(tensor.shape) * element_bytes(tensor.dtype);
    tensor.end = place;
  }
}

std::string safetensors_header(const std::vector<TensorEntry>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  std::string text =
      metadata.empty()
          ? ""
          : fmt::format("\"{}\":{}", kMetadata, Json(metadata).dump(-1, ' ', false, Json::error_handler_t::replace));
  for (const TensorEntry& tensor : tensors) {
    text += fmt::format("{}\"{}\":{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}", text.empty() ? "" : ",",
                        tensor.name, tensor.dtype, to_string(tensor.shape), tensor.begin, tensor.end);
  }
  text = "{" + text + "}";
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::string head;
  for (int byte = 0; byte < kLengthBytes; ++byte) head += static_cast<char>(text.size() >> (8 * byte) & 0xff);
  return head + text;
}

Result<std::int64_t> safetensors_header_bytes(std::span<const std::byte> first_eight, std::int64_t file_bytes,
                                              const std::string& path) {
  if (first_eight.size() < kLengthBytes) return refuse(path, "has less than eight bytes");
  std::uint64_t length = 0;
  for (int byte = kLengthBytes; byte-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(first_eight[byte]);
  if (length > kMaxHeaderBytes || static_cast<std::int64_t>(length) > file_bytes - kLengthBytes) {
    return refuse(path, fmt::format("a header of {} bytes does not fit into a file of {}", length, file_bytes));
  }
  return static_cast<std::int64_t>(length) + kLengthBytes;
}

Result<Safetensors> parse_safetensors(std::span<const std::byte> start, std::int64_t file_bytes,
                                      const std::string& path) {
  const Result<std::int64_t> header_bytes = safetensors_header_bytes(start, file_bytes, path);
  if (!header_bytes) return tl::unexpected(header_bytes.error());
  if (*header_bytes > static_cast<std::int64_t>(start.size())) return refuse(path, "ends inside its header");
  const std::string_view text = text_of(start).substr(kLengthBytes, static_cast<std::size_t>(*header_bytes) - 8);
  if (!text.starts_with('{')) return refuse(path, "the header does not begin with {");
  const Result<Json> json = parse_without_doubles(text, path);
  if (!json) return tl::unexpected(json.error());
  Safetensors file;
  file.header_bytes = *header_bytes;
  for (const auto& [name, value] : json->items()) {
    if (name == kMetadata) {
      const bool good =
          value.is_object() && std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_string(); });
      if (!good) return refuse(path, "__metadata__ is no object of strings");
      for (const auto& [key, text_value] : value.items()) file.metadata[key] = text_value.get<std::string>();
      continue;
    }
    Result<TensorEntry> entry = parse_entry(name, value, path);
    if (!entry) return tl::unexpected(entry.error());
    file.tensors.push_back(std::move(*entry));
  }
  std::stable_sort(file.tensors.begin(), file.tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tuple(a.begin, a.end) < std::tuple(b.begin, b.end);
  });
  if (Result<void> placed = check_places(file, file_bytes, path); !placed) return tl::unexpected(placed.error());
  return file;
}

}  // namespace twinpod::store
