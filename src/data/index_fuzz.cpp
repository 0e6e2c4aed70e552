// libFuzzer: any bytes are an index that stays inside the two files, or are refused with the file's name.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "data/index.hpp"

namespace {

using namespace twinpod;

constexpr std::int64_t kBytesOfBin = 4096;

void require(bool right) {
  if (!right) std::abort();
}

void check(const data::Index& index) {
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < index.num_sequences; ++i) {
    const std::int64_t place = data::sequence_place(index, i);
    const std::int64_t bytes = data::sequence_length(index, i) * data::bytes_of(index.type);
    require(place >= 0 && bytes >= 0 && place + bytes <= kBytesOfBin);
    require(!index.in_order || place == tokens * data::bytes_of(index.type));
    tokens += data::sequence_length(index, i);
  }
  require(tokens == index.num_tokens);
  for (std::int64_t i = 0; i < index.num_documents; ++i) {
    require(data::document_bound(index, i) <= data::document_bound(index, i + 1));
  }
  require(data::document_bound(index, index.num_documents) == index.num_sequences);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const Result<data::Index> index =
      data::parse_index({reinterpret_cast<const std::byte*>(bytes), size}, kBytesOfBin, "a.idx");
  if (index) {
    check(*index);
  } else {
    require(index.error().file == "a.idx" && !index.error().message.empty());
  }
  return 0;
}
