#include "data/tokens.hpp"

#include <algorithm>
#include <cstring>

namespace twinpod::data {
namespace {

// Positions of the stream where sequences start. Megatron's own files need none: there .bin is the stream.
std::vector<std::int64_t> starts_of(const Index& index) {
  std::vector<std::int64_t> starts = {0};
  starts.reserve(static_cast<std::size_t>(index.num_sequences) + 1);
  for (std::int64_t i = 0; i < index.num_sequences; ++i) starts.push_back(starts.back() + sequence_length(index, i));
  return starts;
}

// The sequence that a token of the stream belongs to; empty ones have none. REQUIRES: starts are there.
std::int64_t sequence_of(const std::vector<std::int64_t>& starts, std::int64_t token) {
  return std::upper_bound(starts.begin(), starts.end(), token) - starts.begin() - 1;
}

// Calls body(bytes) for each stretch of .bin that holds the next of these tokens.
template <typename Body>
void for_each_stretch(const TokenData& data, std::int64_t first, std::int64_t count, const Body& body) {
  const std::int64_t token_bytes = bytes_of(data.index.type);
  const auto stretch = [&](std::int64_t place, std::int64_t tokens) {
    return data.tokens.bytes().subspan(static_cast<std::size_t>(place), static_cast<std::size_t>(tokens * token_bytes));
  };
  if (data.starts.empty()) {
    body(stretch(first * token_bytes, count));
    return;
  }
  for (std::int64_t i = sequence_of(data.starts, first); count > 0; ++i) {
    const std::int64_t skipped = first - data.starts[static_cast<std::size_t>(i)];
    const std::int64_t taken = std::min(count, sequence_length(data.index, i) - skipped);
    body(stretch(sequence_place(data.index, i) + skipped * token_bytes, taken));
    first += taken;
    count -= taken;
  }
}

// Calls body(T{}) with the type that tokens are stored in.
template <typename Body>
auto with_type(TokenType type, const Body& body) {
  switch (type) {
    case TokenType::u8:
      return body(std::uint8_t{});
    case TokenType::i8:
      return body(std::int8_t{});
    case TokenType::i16:
      return body(std::int16_t{});
    case TokenType::i32:
      return body(std::int32_t{});
    case TokenType::i64:
      return body(std::int64_t{});
    case TokenType::u16:
      break;
  }
  return body(std::uint16_t{});
}

template <typename T>
std::int64_t token_at(std::span<const std::byte> bytes, std::size_t i) {
  T token{};
  std::memcpy(&token, bytes.data() + i * sizeof(T), sizeof token);
  return static_cast<std::int64_t>(token);
}

// Copies without a branch for each token; only then looks for the first that is outside.
template <typename T>
std::optional<Outsider> copy_as(std::span<const std::byte> bytes, std::int64_t vocabulary, std::int32_t* out) {
  const std::size_t count = bytes.size() / sizeof(T);
  const auto is_outside = [&](std::int64_t token) {
    return static_cast<std::uint64_t>(token) >= static_cast<std::uint64_t>(vocabulary);
  };
  bool outside = false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t token = token_at<T>(bytes, i);
    outside |= is_outside(token);
    out[i] = static_cast<std::int32_t>(token);
  }
  for (std::size_t i = 0; outside && i < count; ++i) {
    if (const std::int64_t token = token_at<T>(bytes, i); is_outside(token)) {
      return Outsider{static_cast<std::int64_t>(i), token};
    }
  }
  return std::nullopt;
}

}  // namespace

std::string name_without_suffix(const std::string& path) {
  const bool has_suffix = path.size() > 4 && (path.ends_with(".bin") || path.ends_with(".idx"));
  return has_suffix ? path.substr(0, path.size() - 4) : path;
}

Result<TokenData> open_tokens(const std::string& name) {
  const std::string path = name_without_suffix(name);
  Result<MappedFile> index = map_file(path + ".idx");
  if (!index) return tl::unexpected(index.error());
  Result<MappedFile> tokens = map_file(path + ".bin");
  if (!tokens) return tl::unexpected(tokens.error());
  return tokens_of(path, std::move(*index), std::move(*tokens));
}

Result<TokenData> tokens_of(const std::string& name, MappedFile index_file, MappedFile tokens) {
  TokenData data;
  data.name = name;
  data.index_file = std::move(index_file);
  data.tokens = std::move(tokens);
  const Result<Index> index =
      parse_index(data.index_file.bytes(), static_cast<std::int64_t>(data.tokens.bytes().size()), name + ".idx");
  if (!index) return tl::unexpected(index.error());
  data.index = *index;
  if (!index->in_order) data.starts = starts_of(*index);
  return data;
}

std::optional<Outsider> read_tokens(const TokenData& data, std::int64_t first, std::int64_t vocabulary,
                                    std::span<std::int32_t> out) {
  std::int64_t done = 0;
  std::optional<Outsider> found;
  for_each_stretch(data, first, static_cast<std::int64_t>(out.size()), [&](std::span<const std::byte> bytes) {
    const std::optional<Outsider> outsider = with_type(
        data.index.type, [&](auto zero) { return copy_as<decltype(zero)>(bytes, vocabulary, out.data() + done); });
    if (outsider && !found) found = Outsider{done + outsider->position, outsider->token};
    done += static_cast<std::int64_t>(bytes.size()) / bytes_of(data.index.type);
  });
  return found;
}

void read_any_tokens(const TokenData& data, std::int64_t first, std::span<std::int64_t> out) {
  std::size_t done = 0;
  for_each_stretch(data, first, static_cast<std::int64_t>(out.size()), [&](std::span<const std::byte> bytes) {
    with_type(data.index.type, [&](auto zero) {
      const std::size_t count = bytes.size() / sizeof zero;
      for (std::size_t i = 0; i < count; ++i) out[done + i] = token_at<decltype(zero)>(bytes, i);
      done += count;
    });
  });
}

void read_ahead(const TokenData& data, std::int64_t first, std::int64_t count) {
  for_each_stretch(data, first, count, [](std::span<const std::byte> bytes) { read_ahead(bytes); });
}

std::int64_t document_of(const TokenData& data, std::int64_t token) {
  const std::int64_t sequence = sequence_of(data.starts.empty() ? starts_of(data.index) : data.starts, token);
  std::int64_t low = 0;
  std::int64_t high = data.index.num_documents;
  while (high - low > 1) {  // the last bound that is not behind the sequence
    const std::int64_t middle = low + (high - low) / 2;
    (document_bound(data.index, middle) <= sequence ? low : high) = middle;
  }
  return low;
}

}  // namespace twinpod::data
