// A Program as bytes, for an attribute of our own in Chakra files.
//
//     const std::string shared = shared_bytes(program);       // all but the kinds of ranks
//     const std::string list = kind_bytes(program.kinds[3]);  // what the ranks of stage 3 do
//     const Result<Program> again = program_of(shared, lists, "step.0.et");
//
// Each field is listed once, for writing and reading alike.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "program/program.hpp"

namespace twinpod::chakra {

std::string shared_bytes(const program::Program& program);
std::string kind_bytes(const program::Kind& kind);

// Refuses bytes that end too soon, that name what is not there, or whose Program is not sound (program/check.hpp).
Result<program::Program> program_of(std::string_view shared, const std::vector<std::string>& kinds,
                                    const std::string& file);

}  // namespace twinpod::chakra
