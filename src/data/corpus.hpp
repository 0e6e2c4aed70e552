// From text files to token files.
//
//     Result<std::vector<TextFile>> files = find_text_files({"docs", "notes.txt"});
//     Result<Prepared> done = prepare(*files, {.output = "tokens"}, {});    // tokens.bin, tokens.idx
//
// A file is a document. Folders are walked to the bottom, in the order of the paths' bytes, so the same text gives the
// same tokens everywhere; hidden files and folders and symbolic links inside them are passed over. A file with a NUL
// byte is no text, and it and empty ones are left out and counted.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/tokenizer.hpp"
#include "data/tokens.hpp"

namespace twinpod::data {

struct TextFile {
  std::string path;
  std::int64_t bytes = 0;
};

// The same file named twice is taken once.
Result<std::vector<TextFile>> find_text_files(const std::vector<std::string>& paths);

struct PrepareRequest {
  std::string output;  // NAME of NAME.bin and NAME.idx
  Tokenizer tokenizer = Tokenizer::bytes;
  bool replace = false;  // what is there
};

struct Prepared {
  std::int64_t files = 0;      // that were looked at
  std::int64_t not_text = 0;   // of them, with NUL bytes
  std::int64_t empty = 0;      // of them
  std::int64_t documents = 0;  // the others
  std::int64_t tokens = 0;
  std::int64_t text_bytes = 0;    // of the documents
  std::int64_t output_bytes = 0;  // of both files
};

// `advance` is told of every so many bytes of the files.
Result<Prepared> prepare(const std::vector<TextFile>& files, const PrepareRequest& request,
                         const std::function<void(std::int64_t)>& advance);

// In files without names, which go with the process. `name` is what the data is called.
Result<TokenData> tokens_of_text(const std::vector<TextFile>& files, const std::string& name);

}  // namespace twinpod::data
