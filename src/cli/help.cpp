#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/command.hpp"
#include "core/nearest.hpp"
#include "core/table.hpp"
#include "core/wrap.hpp"
#include "report/json_parts.hpp"

namespace twinpod::cli {
namespace {

constexpr std::array kCommonFlags = {
    Flag{"json", "", "print one JSON object", ""},
    Flag{"catalog", "DIR", "read devices, clusters, models, ... from this folder", ""},
    Flag{"help", "", "print this", ""},
};

std::string flag_text(const Flag& flag) {
  std::string text = fmt::format("--{}", flag.name);
  if (!flag.alias.empty()) text += fmt::format(", {}{}", flag.alias.size() == 1 ? "-" : "--", flag.alias);
  if (!flag.value.empty()) text += fmt::format(" {}", flag.value);
  return text;
}

constexpr std::size_t kIndent = 2;
constexpr std::size_t kWidestName = 26;  // beyond that, what it means stands below it

// Two columns: a name, and what it means, which goes on below itself.
std::string meanings(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::size_t widest = 0;
  for (const auto& [name, meaning] : rows) {
    if (name.size() <= kWidestName) widest = std::max(widest, name.size());
  }
  const std::size_t column = kIndent + widest + 2;
  std::string text;
  for (const auto& [name, meaning] : rows) {
    text += std::string(kIndent, ' ') + name;
    text += name.size() <= widest ? std::string(column - kIndent - name.size(), ' ') : "\n" + std::string(column, ' ');
    text += wrapped(meaning, {.first = column, .indent = column}) + "\n";
  }
  return text;
}

// One that is too long goes on as a shell lets it. A remark behind it would be part of that, so it stands above then.
std::string example_text(std::string_view example) {
  if (kIndent + example.size() <= kTerminalColumns) return fmt::format("  {}\n", example);
  std::string text;
  if (const std::size_t remark = example.find("  # "); remark != std::string_view::npos) {
    text += fmt::format("  {}\n", example.substr(remark + 2));
    example = example.substr(0, example.find_last_not_of(' ', remark) + 1);
  }
  return text + fmt::format("  {}\n", wrapped(example, {.first = kIndent, .indent = 2 * kIndent, .line_end = " \\"}));
}

std::string as_json(std::string_view key, const std::string& text) {
  return report::printed(report::Json({{std::string(key), text}}));
}

Result<std::string> help(const Arguments& arguments) {
  if (arguments.words.empty()) return help_answer(overview_text(), arguments.has("json"));
  const Command* command = find_command(arguments.words.front());
  if (command == nullptr) return unknown_command(arguments.words.front());
  return help_answer(help_text(*command), arguments.has("json"));
}

Result<std::string> version(const Arguments& arguments) {
  if (!arguments.words.empty()) {
    return input_error(fmt::format("version takes no word: found `{}`", arguments.words.front()), "twinpod version");
  }
  return arguments.has("json") ? as_json("version", std::string(kVersion)) : fmt::format("{} {}\n", kProgram, kVersion);
}

}  // namespace

const Command kHelp = {"help", "[COMMAND]", "what a command does, its flags and examples", "twinpod help estimate\n",
                       {},     help};
const Command kVersionCommand = {"version", "", "the version of the program", "twinpod version\n", {}, version};

std::vector<const Command*> commands() {
  return {&kDemo,  &kEstimate, &kPlan,       &kTopology, &kCollective,    &kProgramCommand, &kSimulate,
          &kTrain, &kStudy,    &kCheckpoint, &kCompare,  &kShow,          &kValidate,       &kCalibrate,
          &kBench, &kData,     &kDoctor,     &kHelp,     &kVersionCommand};
}

const Command* find_command(std::string_view name) {
  const std::vector<const Command*> all = commands();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Command* c) { return c->name == name; });
  return found == all.end() ? nullptr : *found;
}

std::span<const Flag> common_flags() { return kCommonFlags; }

std::vector<Flag> all_flags(const Command& command) {
  std::vector<Flag> flags(command.flags.begin(), command.flags.end());
  flags.insert(flags.end(), kCommonFlags.begin(), kCommonFlags.end());
  return flags;
}

spec::Catalog catalog_of(const Arguments& arguments) {
  return spec::Catalog(arguments.value_or("catalog", TWINPOD_CATALOG_DIR));
}

std::string help_answer(const std::string& text, bool json) { return json ? as_json("help", text) : text; }

tl::unexpected<Error> unknown_command(const std::string& name) {
  std::vector<std::string> known;
  for (const Command* command : commands()) known.emplace_back(command->name);
  const std::string nearest = nearest_name(name, known);
  return input_error(
      fmt::format("unknown command `{}`", name),
      nearest.empty() ? "`twinpod help` lists the commands" : fmt::format("did you mean `twinpod {}`?", nearest));
}

std::string help_text(const Command& command) {
  std::vector<std::pair<std::string, std::string>> flags;
  for (const Flag& flag : all_flags(command)) flags.emplace_back(flag_text(flag), flag.help);
  const std::string usage =
      fmt::format("twinpod {}{}{}", command.name, command.usage.empty() ? "" : " ", command.usage);
  std::string text = fmt::format("{}\n  {}\n\nflags:\n{}", wrapped(usage, {.indent = 2 * kIndent}),
                                 wrapped(command.summary, {.first = kIndent, .indent = kIndent}), meanings(flags));
  text += "\nexamples:\n";
  std::string_view rest = command.examples;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    text += example_text(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return text;
}

std::string overview_text() {
  std::vector<std::pair<std::string, std::string>> all;
  for (const Command* command : commands()) all.emplace_back(command->name, command->summary);
  const std::string end = wrapped(
      "`twinpod COMMAND --help` explains a command. Exit status: 0 done, 1 the job cannot be done, 2 the input is "
      "wrong.",
      {});
  return fmt::format(
      "twinpod: memory, step time and cost of training a model on a cluster that you\nneed not have\n\n"
      "commands:\n{}\n{}\n",
      meanings(all), end);
}

}  // namespace twinpod::cli
