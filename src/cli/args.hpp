// Command lines: a verb, words, and flags. `--flag value`, `--flag=value`, and switches without a value.
//
//     constexpr Flag kFlags[] = {{"on", "CLUSTER", "the cluster", ""}, {"json", "", "print JSON", ""}};
//     Result<Arguments> arguments = parse_arguments(kFlags, {"gpt3-175b", "--on", "dgx-a100"});
//     arguments->words[0] == "gpt3-175b"; arguments->value("on") == "dgx-a100"
//
// An unknown flag is an input error that names the nearest known one. Nothing is read from the environment.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace twinpod::cli {

struct Flag {
  std::string_view name;   // without the dashes
  std::string_view value;  // what stands behind it, for the help; empty: a switch
  std::string_view help;
  std::string_view setting;  // key of the job that it sets, "layout.tp"; empty: none
  std::string_view alias = "";
};

struct GivenFlag {
  const Flag* flag = nullptr;
  std::string value;       // of a switch: "true", or what was written behind `=`
  std::string as_written;  // for messages: "--tp 8"
};

struct Arguments {
  std::vector<std::string> words;
  std::vector<GivenFlag> flags;  // in the order of the command line

  bool has(std::string_view name) const;
  std::optional<std::string> value(std::string_view name) const;  // the last one given
  std::string value_or(std::string_view name, std::string_view fallback) const;
};

// The flags must outlive the result.
Result<Arguments> parse_arguments(std::span<const Flag> flags, const std::vector<std::string>& texts);

// A value that is a whole number of at least `low`.
Result<int> whole_number(const Arguments& arguments, std::string_view name, int low, int fallback);

}  // namespace twinpod::cli
