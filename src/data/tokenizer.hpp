// The tokenizer `bytes`: a token is a byte of the text, and one more ends a document. It needs no file and loses
// nothing.
//
//     append_bytes("hi", tokens)          tokens == {104, 105}
//     text_of(tokens)                     "hi"
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace twinpod::data {

inline constexpr std::int32_t kEndOfDocument = 256;
inline constexpr std::int64_t kBytesVocabulary = 257;  // 256 byte values and the end of a document

enum class Tokenizer { bytes };

Result<Tokenizer> tokenizer_called(std::string_view name);
std::string_view name_of(Tokenizer tokenizer);

void append_bytes(std::string_view text, std::vector<std::int32_t>& tokens);

// Bytes for tokens up to the end of the document; a token that is no byte is written <300>.
std::string text_of(std::span<const std::int64_t> tokens);

}  // namespace twinpod::data
