// A file of protobuf messages, each with its length before it as a varint.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace twinpod::chakra {

// The messages of a file's text, as parts of it. Refuses a length that goes beyond the end, with its byte.
Result<std::vector<std::string_view>> split_messages(std::string_view text, const std::string& file);

void append_message(std::string& text, std::string_view message);

// An input error in a file.
tl::unexpected<Error> file_error(const std::string& file, std::string message, std::string hint = "");

}  // namespace twinpod::chakra
