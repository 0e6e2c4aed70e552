#include "data/summary.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "data/tokenizer.hpp"

namespace twinpod::data {

Lengths document_lengths(const TokenData& data) {
  const Index& index = data.index;
  if (index.num_documents == 0) return {};
  Lengths lengths{std::numeric_limits<std::int64_t>::max(), 0, 0};
  for (std::int64_t d = 0; d < index.num_documents; ++d) {
    std::int64_t length = 0;
    for (std::int64_t i = document_bound(index, d); i < document_bound(index, d + 1); ++i) {
      length += sequence_length(index, i);
    }
    lengths.shortest = std::min(lengths.shortest, length);
    lengths.longest = std::max(lengths.longest, length);
  }
  lengths.mean = static_cast<double>(index.num_tokens) / static_cast<double>(index.num_documents);
  return lengths;
}

std::string first_text(const TokenData& data, std::int64_t most_tokens) {
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(std::min(most_tokens, data.index.num_tokens)));
  read_any_tokens(data, 0, tokens);
  return text_of(tokens);
}

TokenRange token_range(const TokenData& data, const std::function<void(std::int64_t)>& advance) {
  constexpr std::int64_t kPieceTokens = 1 << 20;
  TokenRange range{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()};
  std::vector<std::int64_t> tokens;
  for (std::int64_t first = 0; first < data.index.num_tokens; first += kPieceTokens) {
    const std::int64_t count = std::min(kPieceTokens, data.index.num_tokens - first);
    tokens.resize(static_cast<std::size_t>(count));
    read_any_tokens(data, first, tokens);
    const auto [smallest, largest] = std::minmax_element(tokens.begin(), tokens.end());
    range = {std::min(range.smallest, *smallest), std::max(range.largest, *largest)};
    if (advance) advance(count);
  }
  return range;
}

}  // namespace twinpod::data
