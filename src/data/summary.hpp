// What a token file holds, for people: counts, lengths, the beginning of its text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "data/tokens.hpp"

namespace twinpod::data {

struct Lengths {  // of the documents, in tokens
  std::int64_t shortest = 0;
  std::int64_t longest = 0;
  double mean = 0;
};

Lengths document_lengths(const TokenData& data);

// The first text as the tokenizer `bytes` would read it, at most so many tokens.
std::string first_text(const TokenData& data, std::int64_t most_tokens);

struct TokenRange {
  std::int64_t smallest = 0;
  std::int64_t largest = 0;
};

// Reads all tokens. `advance` is told of every so many of them. REQUIRES: there is a token.
TokenRange token_range(const TokenData& data, const std::function<void(std::int64_t)>& advance);

}  // namespace twinpod::data
