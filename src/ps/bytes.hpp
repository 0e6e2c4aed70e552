// Writes and reads plain numbers as bytes, one after the other. Little-endian, as all processors are that we run on.
//
//     ByteWriter writer;
//     writer.put(std::uint64_t{7});
//     ByteReader reader{writer.bytes};
//     reader.take<std::uint64_t>();       // 7
//     reader.failed;                      // whether there was less than was asked for
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace twinpod::ps {

static_assert(std::endian::native == std::endian::little);

struct ByteWriter {
  std::vector<std::byte> bytes = {};

  template <typename T>
  void put(T value) {
    static_assert(std::is_arithmetic_v<T>);
    put_all(std::span<const T>(&value, 1));
  }
  template <typename T>
  void put_all(std::span<const T> values) {
    const std::span<const std::byte> raw = std::as_bytes(values);
    bytes.insert(bytes.end(), raw.begin(), raw.end());
  }
};

struct ByteReader {
  std::span<const std::byte> bytes = {};
  bool failed = false;

  template <typename T>
  T take() {
    static_assert(std::is_arithmetic_v<T>);
    T value{};
    if (bytes.size() < sizeof(T)) {
      failed = true;
      return value;
    }
    std::memcpy(&value, bytes.data(), sizeof(T));
    bytes = bytes.subspan(sizeof(T));
    return value;
  }
  // How many things of at least `each` bytes follow: refused before anything is allocated for them.
  std::size_t take_count(std::size_t each) {
    const auto count = take<std::uint64_t>();
    if (failed || count > bytes.size() / each) {
      failed = true;
      return 0;
    }
    return static_cast<std::size_t>(count);
  }
  template <typename T>
  std::vector<T> take_all(std::size_t count) {
    if (failed || count > bytes.size() / sizeof(T)) {
      failed = true;
      return {};
    }
    std::vector<T> values(count);
    if (count > 0) std::memcpy(values.data(), bytes.data(), count * sizeof(T));
    bytes = bytes.subspan(count * sizeof(T));
    return values;
  }
};

}  // namespace twinpod::ps
