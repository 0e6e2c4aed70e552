// The header of a safetensors file (https://huggingface.co/docs/safetensors): eight bytes with its length, JSON, then
// the tensors' bytes without gaps.
//
//     std::vector<TensorEntry> tensors = {{"w", "F32", {2, 3}}, {"n", "BF16", {4}}};
//     place_tensors(tensors);
//     const std::string head = safetensors_header(tensors, {{"format", "pt"}});       // followed by the data
//     Result<Safetensors> read = parse_safetensors(first_bytes, file_bytes, "a.safetensors");
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "store/region.hpp"

namespace twinpod::store {

// Bytes of an element of a type by its safetensors name ("F32", "BF16", "I64", ...); 0: there is no such type.
int element_bytes(const std::string& dtype);

// Text without quotes, backslashes and control characters, and not the name of the metadata.
bool is_tensor_name(const std::string& name);

struct TensorEntry {
  std::string name;
  std::string dtype;
  Dims shape;
  std::int64_t begin = 0;  // first byte, counted from the end of the header
  std::int64_t end = 0;
};

struct Safetensors {
  std::vector<TensorEntry> tensors;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
  std::int64_t header_bytes = 0;  // with the eight of its length
};

// Orders the tensors as the public library does, larger elements first and then by name, so that each is aligned, and
// gives them their places. REQUIRES: good names, known types, shapes with a number of elements.
void place_tensors(std::vector<TensorEntry>& tensors);

// A multiple of eight bytes long.
std::string safetensors_header(const std::vector<TensorEntry>& tensors,
                               const std::map<std::string, std::string>& metadata);

// `start` holds at least the header; `path` is for messages. Refuses what the public library refuses.
Result<Safetensors> parse_safetensors(std::span<const std::byte> start, std::int64_t file_bytes,
                                      const std::string& path);

// How many bytes of a file parse_safetensors() needs, from its first eight.
Result<std::int64_t> safetensors_header_bytes(std::span<const std::byte> first_eight, std::int64_t file_bytes,
                                              const std::string& path);

}  // namespace twinpod::store
