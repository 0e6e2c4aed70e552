#include "data/corpus.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "core/files.hpp"
#include "data/summary.hpp"
#include "data/test_tokens.hpp"

namespace twinpod::data {
namespace {

namespace fs = std::filesystem;

// An empty folder of the test's own.
std::string folder() {
  const std::string path = test_name() + "_corpus";
  fs::remove_all(path);
  fs::create_directories(path);
  return path;
}

void put(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  ASSERT_TRUE(write_file(path, text));
}

Prepared prepared(const std::string& path) {
  const Result<std::vector<TextFile>> files = find_text_files({path});
  EXPECT_TRUE(files) << to_string(files.error());
  const Result<Prepared> done = prepare(*files, {.output = test_name(), .replace = true}, {});
  EXPECT_TRUE(done) << to_string(done.error());
  return done ? *done : Prepared{};
}

TEST(Corpus, FilesAreDocumentsInTheOrderOfTheirPaths) {
  const std::string path = folder();
  put(path + "/b.txt", "second");
  put(path + "/a/z.txt", "first");
  put(path + "/.git/config", "hidden");
  const Prepared done = prepared(path);
  EXPECT_EQ(done.documents, 2);
  EXPECT_EQ(done.tokens, 13);  // 11 bytes and two ends
  EXPECT_EQ(done.text_bytes, 11);
  const Result<TokenData> data = open_tokens(test_name());
  ASSERT_TRUE(data) << to_string(data.error());
  EXPECT_EQ(first_text(*data, 100), "first");
  EXPECT_EQ(token_range(*data, {}).largest, kEndOfDocument);
  const Lengths lengths = document_lengths(*data);
  EXPECT_EQ(lengths.shortest, 6);
  EXPECT_EQ(lengths.longest, 7);
  EXPECT_EQ(lengths.mean, 6.5);
}

TEST(Corpus, EveryByteButNulComesBack) {
  const std::string path = folder();
  std::string text;
  for (int c = 1; c < 256; ++c) text += static_cast<char>(c);
  put(path + "/a", text);
  prepared(path);
  EXPECT_EQ(first_text(*open_tokens(test_name()), 1000), text);
}

TEST(Corpus, AFileOfSeveralPiecesIsOneDocument) {
  const std::string path = folder();
  put(path + "/a", std::string((std::size_t{2} << 20) + 17, 'x'));
  EXPECT_EQ(prepared(path).documents, 1);
  EXPECT_EQ(open_tokens(test_name())->index.num_tokens, (2 << 20) + 18);
}

TEST(Corpus, FilesWithNulBytesAndEmptyOnesAreLeftOutAndCounted) {
  const std::string path = folder();
  put(path + "/a.txt", "text");
  put(path + "/b.o", std::string("a\0b", 3));
  put(path + "/c.txt", "");
  // The NUL stands in the second piece that is read.
  put(path + "/d.o", std::string(std::size_t{1} << 20, 'x') + std::string(1, '\0'));
  const Prepared done = prepared(path);
  EXPECT_EQ(done.files, 4);
  EXPECT_EQ(done.not_text, 2);
  EXPECT_EQ(done.empty, 1);
  EXPECT_EQ(done.documents, 1);
}

TEST(Corpus, AFileThatIsNamedTwiceIsTakenOnce) {
  const std::string path = folder();
  put(path + "/a.txt", "text");
  EXPECT_EQ(find_text_files({path, path + "/a.txt", path + "/./a.txt"})->size(), 1U);
}

TEST(Corpus, SymbolicLinksInFoldersAreNotFollowed) {
  const std::string path = folder();
  put(path + "/a.txt", "text");
  fs::create_directory_symlink(path, path + "/again");
  fs::create_symlink(path + "/a.txt", path + "/b.txt");
  EXPECT_EQ(find_text_files({path})->size(), 1U);
}

TEST(Corpus, RefusesWhatIsNotThereAndWhatHasNoText) {
  EXPECT_NE(to_string(find_text_files({"/nowhere"}).error()).find("/nowhere: is not there"), std::string::npos);
  const Result<Prepared> none = prepare({}, {.output = test_name()}, {});
  ASSERT_FALSE(none);
  EXPECT_NE(to_string(none.error()).find("the corpus has no text: 0 files"), std::string::npos);
  EXPECT_FALSE(fs::exists(test_name() + ".idx"));
}

TEST(Corpus, AFileThatCannotBeReadEndsItAndNothingIsWritten) {
  const std::string path = folder();
  put(path + "/a.txt", "text");
  const Result<Prepared> done = prepare({{path + "/a.txt", 4}, {path + "/gone.txt", 4}}, {.output = test_name()}, {});
  ASSERT_FALSE(done);
  EXPECT_NE(to_string(done.error()).find("/gone.txt: cannot be opened: No such file"), std::string::npos);
  EXPECT_FALSE(fs::exists(test_name() + ".bin"));
}

TEST(Tokenizer, UnknownOnesAreRefused) {
  EXPECT_TRUE(tokenizer_called("bytes"));
  EXPECT_NE(to_string(tokenizer_called("byte").error()).find("did you mean `bytes`?"), std::string::npos);
}

TEST(Tokenizer, WhatIsNoByteIsShownAsANumber) {
  EXPECT_EQ(text_of(std::vector<std::int64_t>{104, 300, -1, 105, kEndOfDocument, 106}), "h<300><-1>i");
}

}  // namespace
}  // namespace twinpod::data
