// Writes tokens in Megatron's format: NAME.bin and NAME.idx.
//
//     TokenWriter writer("tokens", TokenType::u16);
//     if (Result<void> opened = writer.open(false); !opened) return ...;
//     writer.append(some_tokens); writer.append(more_tokens); writer.end_document();
//     Result<void> written = writer.finish();        // or Result<TokenData> data = writer.keep_nameless();
//
// The files have no names until finish(), which brings them to the disk and names them, the index last. So NAME.idx is
// there only when all of it is, whatever happens; without finish() nothing stays behind.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/temporary.hpp"
#include "data/index.hpp"
#include "data/tokens.hpp"

namespace twinpod::data {

class TokenWriter {
 public:
  TokenWriter(const std::string& name, TokenType type);
  TokenWriter(const TokenWriter&) = delete;
  TokenWriter& operator=(const TokenWriter&) = delete;

  // Refuses when NAME.bin or NAME.idx is there, unless they are to be replaced.
  Result<void> open(bool replace);
  // For keep_nameless(); the name is for messages.
  Result<void> open_nameless(const std::string& folder);

  // More tokens of the current document. An error is kept and returned again by finish().
  // REQUIRES: each fits the type of a token.
  Result<void> append(std::span<const std::int32_t> tokens);
  void end_document();
  Result<void> finish();
  Result<TokenData> keep_nameless();

  std::int64_t num_tokens() const { return num_tokens_; }
  std::int64_t num_documents() const { return static_cast<std::int64_t>(bounds_.size()) - 1; }

 private:
  Result<void> keep(Result<void> result);
  Result<void> write_index(int descriptor);
  Result<void> replace_files(FutureFile& index_file);

  const std::string name_;
  const TokenType type_;
  const std::string bin_, index_;  // NAME.bin, NAME.idx
  FutureFile bin_file_;            // or
  NamelessFile nameless_bin_, nameless_index_;
  int descriptor_ = -1;         // of the tokens
  bool open_sequence_ = false;  // the last length may grow
  std::int64_t num_tokens_ = 0;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> bounds_ = {0};
  std::vector<std::byte> buffer_;
  Result<void> failed_;
};

}  // namespace twinpod::data
