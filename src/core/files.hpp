// Reading and writing a whole file, with an error that names it. This is the one way in which a text that a user names
// comes into memory: it is bounded, and what may never end (a pipe, a device) is refused before it is opened.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace twinpod {

// What a text that people wrote has at most. Parsers make up to 20 bytes of one.
inline constexpr std::size_t kMostTextBytes = std::size_t{64} << 20;
// What programs write, line by line or record by record: logs, traces.
inline constexpr std::size_t kMostRecordBytes = std::size_t{1} << 30;

// All of a regular file. `expected` says what belongs there, for the message: "a training log".
Result<std::string> read_file(const std::string& path, std::size_t most_bytes = kMostTextBytes,
                              std::string_view expected = "a file");
bool can_be_written(const std::string& path);  // makes nothing, and changes nothing
Result<void> write_file(const std::string& path, const std::string& text);

}  // namespace twinpod
