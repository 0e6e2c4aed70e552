// Token files for the tests of this module.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "data/token_writer.hpp"
#include "data/tokens.hpp"

namespace twinpod::data {

// A name in the tests' folder that no other test has.
inline std::string test_name() {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  return testing::TempDir() + "data_" + test->test_suite_name() + "_" + test->name();
}

using Documents = std::vector<std::vector<std::int32_t>>;

inline void write_documents(const std::string& name, TokenType type, const Documents& documents) {
  TokenWriter writer(name, type);
  ASSERT_TRUE(writer.open(true));
  for (const std::vector<std::int32_t>& document : documents) {
    ASSERT_TRUE(writer.append(document));
    writer.end_document();
  }
  const Result<void> written = writer.finish();
  ASSERT_TRUE(written) << to_string(written.error());
}

// A stream of 0, 1, 2, ... count-1 in one document, opened.
inline TokenData counted(std::int64_t count) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  write_documents(test_name(), TokenType::i32, {tokens});
  Result<TokenData> data = open_tokens(test_name());
  EXPECT_TRUE(data) << to_string(data.error());
  return std::move(*data);
}

}  // namespace twinpod::data
