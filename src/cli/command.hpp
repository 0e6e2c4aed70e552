// A command: its name, its flags, its help, and the function that answers.
//
// A command turns arguments into the text that goes to standard output, or into an Error. It neither prints nor exits,
// so a test can call it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/args.hpp"
#include "core/error.hpp"
#include "core/quote.hpp"
#include "spec/catalog.hpp"

namespace twinpod::cli {

// An answer that stands although not all was done that was asked for: it is printed, and then the error, with its exit
// status. With --json the answer has the error in it.
std::string answer_with_error(const std::string& answer, const Error& error);

struct Command {
  std::string_view name;
  std::string_view usage;     // what stands behind the name
  std::string_view summary;   // one line
  std::string_view examples;  // lines, each a command
  std::span<const Flag> flags;
  Result<std::string> (*run)(const Arguments&) = nullptr;
  Colours colours = Colours::none;  // whether its answer may have some
};

extern const Command kEstimate;
extern const Command kPlan;
extern const Command kTopology;
extern const Command kCollective;
extern const Command kProgramCommand;
extern const Command kSimulate;
extern const Command kTrain;
extern const Command kCheckpoint;
extern const Command kCompare;
extern const Command kStudy;
extern const Command kShow;
extern const Command kValidate;
extern const Command kCalibrate;
extern const Command kBench;
extern const Command kData;
extern const Command kDoctor;
extern const Command kDemo;
extern const Command kHelp;
extern const Command kVersionCommand;

// All of them, in the order of the help.
std::vector<const Command*> commands();
const Command* find_command(std::string_view name);  // nullptr: no such command

// Flags that every command has.
std::span<const Flag> common_flags();
std::vector<Flag> all_flags(const Command& command);

std::string help_text(const Command& command);
std::string overview_text();
// Either of them, or an object with it.
std::string help_answer(const std::string& text, bool json);

tl::unexpected<Error> unknown_command(const std::string& name);

// The catalog of --catalog, or the one that the program was built with.
spec::Catalog catalog_of(const Arguments& arguments);

// What the program is called in messages, and its version.
inline constexpr std::string_view kProgram = "twinpod";
inline constexpr std::string_view kVersion = "0.1.0";

// The whole program. Writes to standard output and standard error and returns the exit status:
// 0 done, 1 the job cannot be done, 2 the input is wrong.
int run(const std::vector<std::string>& texts);

}  // namespace twinpod::cli
