// Tokens in Megatron's format, a pair of files NAME.bin and NAME.idx, read from memory-mapped files.
//
//     Result<TokenData> data = open_tokens("tokens");
//     if (auto outsider = read_tokens(*data, 100, 257, buffer)) ...   // buffer.size() tokens from the 100th on
//
// All sequences, one behind the other, are one stream of num_tokens tokens. token_writer.hpp writes such files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/index.hpp"
#include "data/mapped_file.hpp"

namespace twinpod::data {

// "tokens" for "tokens", "tokens.bin" and "tokens.idx".
std::string name_without_suffix(const std::string& path);

// Several threads may read it.
struct TokenData {
  std::string name;      // without .bin and .idx
  bool of_text = false;  // made of text on the way, in files that are gone: the name is the text's
  Index index;
  MappedFile index_file;
  MappedFile tokens;
  std::vector<std::int64_t> starts;  // of each sequence in the stream, and its end; empty when .bin is the stream
};

Result<TokenData> open_tokens(const std::string& name);
Result<TokenData> tokens_of(const std::string& name, MappedFile index, MappedFile tokens);

// A token that is not in the vocabulary.
struct Outsider {
  std::int64_t position = 0;  // in what was asked for
  std::int64_t token = 0;
};

// Tokens first, first + 1, ... of the stream into `out`; the first that is below 0 or not below `vocabulary`, if any.
// REQUIRES: first >= 0 and first + out.size() <= num_tokens; 0 < vocabulary <= 2^31.
std::optional<Outsider> read_tokens(const TokenData& data, std::int64_t first, std::int64_t vocabulary,
                                    std::span<std::int32_t> out);

// The same without a vocabulary: whatever is there.
void read_any_tokens(const TokenData& data, std::int64_t first, std::span<std::int64_t> out);

// Starts to bring these tokens from the disk, without waiting.
void read_ahead(const TokenData& data, std::int64_t first, std::int64_t count);

// The document that the token of the stream belongs to.
std::int64_t document_of(const TokenData& data, std::int64_t token);

}  // namespace twinpod::data
