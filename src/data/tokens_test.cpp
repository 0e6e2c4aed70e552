#include "data/tokens.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/files.hpp"
#include "data/test_tokens.hpp"

namespace twinpod::data {
namespace {

namespace fs = std::filesystem;

std::vector<std::int32_t> read_all(const TokenData& data) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(data.index.num_tokens));
  EXPECT_FALSE(read_tokens(data, 0, 1 << 30, tokens));
  return tokens;
}

// Files that a test left in its folder: NAME and anything behind it.
std::vector<std::string> files_called(const std::string& name) {
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(fs::path(name).parent_path())) {
    if (entry.path().string().starts_with(name)) found.push_back(entry.path().filename().string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Of a run before this one.
void remove_files_called(const std::string& name) {
  for (const std::string& file : files_called(name)) fs::remove(fs::path(name).parent_path() / file);
}

TEST(Tokens, EveryTypeComesBackAsItWasWritten) {
  for (const TokenType type :
       {TokenType::u8, TokenType::i8, TokenType::u16, TokenType::i16, TokenType::i32, TokenType::i64}) {
    write_documents(test_name(), type, {{1, 2, 3}, {}, {100, 127}});
    const Result<TokenData> data = open_tokens(test_name());
    ASSERT_TRUE(data) << to_string(data.error());
    EXPECT_EQ(data->index.type, type);
    EXPECT_EQ(data->index.num_documents, 3);
    EXPECT_EQ(read_all(*data), (std::vector<std::int32_t>{1, 2, 3, 100, 127})) << name_of(type);
  }
}

TEST(Tokens, ANameMayHaveEitherSuffix) {
  write_documents(test_name() + ".bin", TokenType::u16, {{7}});
  EXPECT_TRUE(open_tokens(test_name() + ".idx"));
  EXPECT_EQ(name_without_suffix(".bin"), ".bin");
}

TEST(Tokens, SequencesInAnyOrderAreOneStream) {
  write_documents(test_name(), TokenType::u16, {{1, 2, 3}, {4, 5}});
  // The two places are at byte 42 and 50; the first sequence is now 3, 4, 5, the second 1, 2.
  Result<std::string> index = read_file(test_name() + ".idx");
  ASSERT_TRUE(index);
  const std::int64_t places[] = {4, 0};
  std::memcpy(index->data() + 42, places, sizeof places);
  ASSERT_TRUE(write_file(test_name() + ".idx", *index));
  const Result<TokenData> data = open_tokens(test_name());
  ASSERT_TRUE(data) << to_string(data.error());
  EXPECT_EQ(read_all(*data), (std::vector<std::int32_t>{3, 4, 5, 1, 2}));
  std::vector<std::int32_t> middle(2);
  EXPECT_FALSE(read_tokens(*data, 2, 10, middle));
  EXPECT_EQ(middle, (std::vector<std::int32_t>{5, 1}));
  EXPECT_EQ(read_tokens(*data, 2, 4, middle)->position, 0);
}

TEST(Tokens, TheFirstTokenOutsideTheVocabularyIsFound) {
  write_documents(test_name(), TokenType::i32, {{1, 2, -5, 9}});
  const Result<TokenData> data = open_tokens(test_name());
  ASSERT_TRUE(data);
  std::vector<std::int32_t> tokens(4);
  const std::optional<Outsider> outsider = read_tokens(*data, 0, 9, tokens);
  ASSERT_TRUE(outsider);
  EXPECT_EQ(outsider->position, 2);
  EXPECT_EQ(outsider->token, -5);
}

TEST(Tokens, ADocumentIsFoundByItsToken) {
  write_documents(test_name(), TokenType::u8, {{1, 2}, {}, {3}, {4, 5}});
  const Result<TokenData> data = open_tokens(test_name());
  ASSERT_TRUE(data);
  const std::int64_t expected[] = {0, 0, 2, 3, 3};
  for (std::int64_t token = 0; token < 5; ++token) EXPECT_EQ(document_of(*data, token), expected[token]) << token;
}

TEST(Tokens, EmptyFilesAndMissingOnesAreRefusedByName) {
  EXPECT_NE(to_string(open_tokens("/nowhere/tokens").error()).find("/nowhere/tokens.idx: cannot be opened"),
            std::string::npos);
  ASSERT_TRUE(write_file(test_name() + ".idx", ""));
  ASSERT_TRUE(write_file(test_name() + ".bin", ""));
  EXPECT_NE(to_string(open_tokens(test_name()).error()).find(".idx: byte 0: found ``"), std::string::npos);
  fs::create_directories(test_name() + "folder.idx");
  EXPECT_NE(to_string(open_tokens(test_name() + "folder").error()).find("no file that can be mapped"),
            std::string::npos);
}

TEST(Tokens, NoTokensAtAllAreAFile) {
  write_documents(test_name(), TokenType::u16, {});
  const Result<TokenData> data = open_tokens(test_name());
  ASSERT_TRUE(data) << to_string(data.error());
  EXPECT_EQ(data->index.num_tokens, 0);
  EXPECT_EQ(data->index.num_documents, 0);
}

TEST(TokenWriter, DoesNotReplaceUnlessAsked) {
  write_documents(test_name(), TokenType::u16, {{1}});
  TokenWriter writer(test_name(), TokenType::u16);
  const Result<void> opened = writer.open(false);
  ASSERT_FALSE(opened);
  EXPECT_NE(to_string(opened.error()).find(".bin: is already there\n  --force"), std::string::npos);
  EXPECT_FALSE(writer.append(std::vector<std::int32_t>{1}));
  EXPECT_FALSE(writer.finish());
  EXPECT_TRUE(open_tokens(test_name()));
}

TEST(TokenWriter, LeavesNothingWithoutFinish) {
  remove_files_called(test_name());
  {
    TokenWriter writer(test_name(), TokenType::u16);
    ASSERT_TRUE(writer.open(false));
    ASSERT_TRUE(writer.append(std::vector<std::int32_t>{1, 2}));
    EXPECT_FALSE(fs::exists(test_name() + ".bin"));
  }
  EXPECT_TRUE(files_called(test_name()).empty());
}

TEST(TokenWriter, AFullDiskIsAnErrorAndLeavesWhatWasThere) {
  remove_files_called(test_name());
  write_documents(test_name(), TokenType::u16, {{1, 2, 3}});
  // A limit on the size of files is a disk that is full, without the signal.
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit{};
  getrlimit(RLIMIT_FSIZE, &old_limit);
  const rlimit limit{4096, old_limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &limit);
  std::string message;
  {
    TokenWriter writer(test_name(), TokenType::u16);
    EXPECT_TRUE(writer.open(true));
    EXPECT_FALSE(writer.append(std::vector<std::int32_t>(10000, 7)));
    message = to_string(writer.finish().error());
  }
  setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_NE(message.find("cannot be written: File too large"), std::string::npos) << message;
  EXPECT_EQ(files_called(test_name()).size(), 2U);
  EXPECT_EQ(read_all(*open_tokens(test_name())), (std::vector<std::int32_t>{1, 2, 3}));
}

TEST(TokenWriter, NamesAFolderThatIsNotThere) {
  TokenWriter writer("/nowhere/at/all/tokens", TokenType::u16);
  EXPECT_NE(to_string(writer.open(false).error()).find("/nowhere/at/all/tokens.bin"), std::string::npos);
}

}  // namespace
}  // namespace twinpod::data
