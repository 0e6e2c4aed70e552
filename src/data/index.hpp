// The index of a Megatron token file: NAME.idx, which says where in NAME.bin each sequence stands.
//
//     Result<Index> index = parse_index(bytes, bytes_of_bin, "tokens.idx");
//     sequence_length(*index, 0)      tokens of the first sequence
//
// Little-endian, nothing aligned (docs/data.md):
//
//     byte 0   "MMIDIDX\0\0"             9   version 1 (u64)      17  type of a token (u8)
//     byte 18  S, number of sequences (u64)                       26  D, number of document bounds (u64)
//     byte 34  S lengths in tokens (i32), S places in .bin in bytes (i64), D bounds (i64): document d has the sequences
//              bounds[d] .. bounds[d + 1] - 1; then nothing, or S modes (i8), which we pass over
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace twinpod::data {

// How a token is stored. The numbers are those of the format, which also has floating-point types (6 and 7).
enum class TokenType : std::uint8_t { u8 = 1, i8 = 2, i16 = 3, i32 = 4, i64 = 5, u16 = 8 };

std::int64_t bytes_of(TokenType type);
std::string_view name_of(TokenType type);  // "uint16"

// The smallest of u16 and i32 that Megatron takes for a vocabulary.
TokenType type_for_vocabulary(std::int64_t vocabulary);

inline constexpr std::string_view kIndexMagic("MMIDIDX\0\0", 9);
inline constexpr std::int64_t kIndexHeaderBytes = 34;
inline constexpr std::int64_t kLongestSequence = 0x7fffffff;  // tokens: a length is an i32

struct Index {
  TokenType type = TokenType::u16;
  std::int64_t num_sequences = 0;
  std::int64_t num_documents = 0;
  std::int64_t num_tokens = 0;
  bool in_order = true;              // .bin has the sequences one behind the other, from byte 0 on
  std::span<const std::byte> bytes;  // of the file; they must outlive this
};

// Every field is checked, so that all that is asked of an Index lies inside the two files.
Result<Index> parse_index(std::span<const std::byte> bytes, std::int64_t bytes_of_bin, const std::string& file);

// REQUIRES: 0 <= sequence < num_sequences, 0 <= bound <= num_documents.
std::int64_t sequence_length(const Index& index, std::int64_t sequence);
std::int64_t sequence_place(const Index& index, std::int64_t sequence);  // in .bin, bytes
std::int64_t document_bound(const Index& index, std::int64_t bound);     // a sequence

}  // namespace twinpod::data
