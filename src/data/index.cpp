#include "data/index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "data/mapped_file.hpp"

namespace twinpod::data {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian and are read as they are");

constexpr std::int64_t kVersionAt = 9;
constexpr std::int64_t kTypeAt = 17;
constexpr std::int64_t kSequencesAt = 18;
constexpr std::int64_t kBoundsAt = 26;
constexpr std::int64_t kVocabularyOfU16 = 65500;  // as Megatron-LM decides

template <typename T>
T value_at(std::span<const std::byte> bytes, std::int64_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

std::int64_t lengths_at() { return kIndexHeaderBytes; }
std::int64_t places_at(const Index& index) { return lengths_at() + 4 * index.num_sequences; }
std::int64_t bounds_at(const Index& index) { return places_at(index) + 8 * index.num_sequences; }

// For messages: letters as they are, the rest as \x00.
std::string readable(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    const auto c = std::to_integer<unsigned char>(byte);
    text += c >= ' ' && c < 127 ? std::string(1, static_cast<char>(c)) : fmt::format("\\x{:02x}", c);
  }
  return text;
}

bool is_token_type(std::uint8_t code) { return (code >= 1 && code <= 5) || code == 8; }

Result<void> check_header(std::span<const std::byte> bytes, const std::string& file) {
  const std::span<const std::byte> start = bytes.first(std::min(bytes.size(), kIndexMagic.size()));
  const auto is = [](std::byte byte, char c) { return std::to_integer<char>(byte) == c; };
  if (start.empty() || !std::equal(start.begin(), start.end(), kIndexMagic.begin(), is)) {
    return file_error(file, fmt::format("byte 0: found `{}`, expected `MMIDIDX\\x00\\x00`", readable(start)),
                      "an index of Megatron-LM starts so; `twinpod data prepare` writes one");
  }
  if (static_cast<std::int64_t>(bytes.size()) < kIndexHeaderBytes) {
    return file_error(
        file, fmt::format("ends at byte {}, inside the header, which has {} bytes", bytes.size(), kIndexHeaderBytes),
        "the file was cut short: write it again");
  }
  if (const auto version = value_at<std::uint64_t>(bytes, kVersionAt); version != 1) {
    return file_error(file, fmt::format("byte {}: found version {}, expected 1", kVersionAt, version));
  }
  if (const auto code = value_at<std::uint8_t>(bytes, kTypeAt); !is_token_type(code)) {
    return file_error(file,
                      fmt::format("byte {}: found {} as the type of a token, expected 1 (uint8), 2 (int8), 3 (int16), "
                                  "4 (int32), 5 (int64) or 8 (uint16)",
                                  kTypeAt, code),
                      code == 6 || code == 7 ? "6 and 7 are floating-point numbers, which are no tokens" : "");
  }
  return {};
}

// The arrays must end where the file ends. Counts are compared before they are multiplied: they can be any number.
Result<void> check_counts(std::span<const std::byte> bytes, const std::string& file) {
  const auto sequences = value_at<std::uint64_t>(bytes, kSequencesAt);
  const auto bounds = value_at<std::uint64_t>(bytes, kBoundsAt);
  const std::uint64_t rest = bytes.size() - kIndexHeaderBytes;
  if (sequences > rest / 12) {
    return file_error(
        file,
        fmt::format("byte {}: found {} sequences, which take {} bytes each, but {} bytes follow the header",
                    kSequencesAt, sequences, 12, rest),
        "the file was cut short, or is no index");
  }
  if (bounds == 0)
    return file_error(file, fmt::format("byte {}: found no document bounds, expected 1 or more", kBoundsAt));
  const std::uint64_t left = rest - 12 * sequences;
  const bool fits = bounds <= left / 8 && (left == 8 * bounds || left == 8 * bounds + sequences);
  if (!fits) {
    return file_error(
        file,
        fmt::format("byte {}: found {} document bounds of 8 bytes (and perhaps {} modes of 1), but {} bytes "
                    "are left for them",
                    kBoundsAt, bounds, sequences, left),
        "the file was cut short, or something was added to it");
  }
  return {};
}

// Also counts the tokens.
Result<void> check_sequences(Index& index, std::int64_t bytes_of_bin, const std::string& file) {
  const std::int64_t token_bytes = bytes_of(index.type);
  std::int64_t expected_place = 0;
  for (std::int64_t i = 0; i < index.num_sequences; ++i) {
    const std::int64_t length = sequence_length(index, i);
    const std::int64_t place = sequence_place(index, i);
    if (length < 0) {
      return file_error(
          file, fmt::format("byte {}: sequence {} has {} tokens, expected 0 or more", lengths_at() + 4 * i, i, length));
    }
    if (place < 0 || place > bytes_of_bin || length * token_bytes > bytes_of_bin - place) {
      return file_error(
          file,
          fmt::format("byte {}: sequence {} stands at byte {} with {} tokens of {} bytes, but the .bin file "
                      "has {} bytes",
                      places_at(index) + 8 * i, i, place, length, token_bytes, bytes_of_bin),
          "the .bin file was cut short, or is another's");
    }
    index.in_order = index.in_order && place == expected_place;
    expected_place = place + length * token_bytes;
    index.num_tokens += length;
  }
  return {};
}

Result<void> check_bounds(const Index& index, const std::string& file) {
  std::int64_t before = 0;
  for (std::int64_t i = 0; i <= index.num_documents; ++i) {
    const std::int64_t bound = document_bound(index, i);
    const bool right = i == 0 ? bound == 0 : bound >= before && bound <= index.num_sequences;
    if (!right) {
      return file_error(
          file, fmt::format("byte {}: found {} as document bound {}, expected {}", bounds_at(index) + 8 * i, bound, i,
                            i == 0 ? "0" : fmt::format("{} to {}", before, index.num_sequences)));
    }
    before = bound;
  }
  if (before != index.num_sequences) {
    return file_error(file, fmt::format("byte {}: the last document ends at sequence {}, but there are {}",
                                        bounds_at(index) + 8 * index.num_documents, before, index.num_sequences));
  }
  return {};
}

}  // namespace

std::int64_t bytes_of(TokenType type) {
  switch (type) {
    case TokenType::u8:
    case TokenType::i8:
      return 1;
    case TokenType::u16:
    case TokenType::i16:
      return 2;
    case TokenType::i32:
      return 4;
    case TokenType::i64:
      return 8;
  }
  return 1;
}

std::string_view name_of(TokenType type) {
  switch (type) {
    case TokenType::u8:
      return "uint8";
    case TokenType::i8:
      return "int8";
    case TokenType::u16:
      return "uint16";
    case TokenType::i16:
      return "int16";
    case TokenType::i32:
      return "int32";
    case TokenType::i64:
      return "int64";
  }
  return "";
}

TokenType type_for_vocabulary(std::int64_t vocabulary) {
  return vocabulary < kVocabularyOfU16 ? TokenType::u16 : TokenType::i32;
}

std::int64_t sequence_length(const Index& index, std::int64_t sequence) {
  return value_at<std::int32_t>(index.bytes, lengths_at() + 4 * sequence);
}

std::int64_t sequence_place(const Index& index, std::int64_t sequence) {
  return value_at<std::int64_t>(index.bytes, places_at(index) + 8 * sequence);
}

std::int64_t document_bound(const Index& index, std::int64_t bound) {
  return value_at<std::int64_t>(index.bytes, bounds_at(index) + 8 * bound);
}

Result<Index> parse_index(std::span<const std::byte> bytes, std::int64_t bytes_of_bin, const std::string& file) {
  if (Result<void> right = check_header(bytes, file); !right) return tl::unexpected(right.error());
  if (Result<void> right = check_counts(bytes, file); !right) return tl::unexpected(right.error());
  Index index;
  index.type = static_cast<TokenType>(value_at<std::uint8_t>(bytes, kTypeAt));
  index.num_sequences = static_cast<std::int64_t>(value_at<std::uint64_t>(bytes, kSequencesAt));
  index.num_documents = static_cast<std::int64_t>(value_at<std::uint64_t>(bytes, kBoundsAt)) - 1;
  index.bytes = bytes;
  if (Result<void> right = check_sequences(index, bytes_of_bin, file); !right) return tl::unexpected(right.error());
  if (Result<void> right = check_bounds(index, file); !right) return tl::unexpected(right.error());
  return index;
}

}  // namespace twinpod::data
