// For tests: Chakra files as other code writes them. The bytes are made by hand from the public schema's numbers, so
// that a wrong number in ours shows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace twinpod::chakra {

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
inline std::string whole(int field, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(value);
}
inline std::string bytes(int field, std::string_view value) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(value.size()) + std::string(value);
}
inline std::string with_length(const std::string& message) { return varint(message.size()) + message; }

// Field 10 of a node: a name, and a value as int64 (9), uint64 (13), bool (27) or string (29).
inline std::string attribute(std::string_view name, std::uint64_t value, int field = 9) {
  return bytes(10, bytes(1, name) + whole(field, value));
}
inline std::string attribute(std::string_view name, std::string_view value) {
  return bytes(10, bytes(1, name) + bytes(29, value));
}

enum : std::uint64_t { kComp = 4, kSend = 5, kRecv = 6, kColl = 7 };

inline std::string node(std::uint64_t id, std::uint64_t type, const std::vector<std::uint64_t>& data_deps,
                        const std::string& rest) {
  std::string message = whole(1, id) + bytes(2, "n" + std::to_string(id)) + whole(3, type);
  std::string packed;
  for (const std::uint64_t dep : data_deps) packed += varint(dep);
  if (!packed.empty()) message += bytes(5, packed);
  return with_length(message + rest);
}
inline std::string duration(std::uint64_t micros) { return whole(7, micros); }
inline std::string metadata() { return with_length(bytes(1, "0.0.4")); }

}  // namespace twinpod::chakra
