#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "core/nearest.hpp"
#include "core/table.hpp"
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

Table plain_table() { return Table({{""}, {""}}, {.indent = 2, .gap = 2, .header_rule = false}); }

std::string as_json(std::string_view key, const std::string& text) {
  return report::printed(report::Json({{std::string(key), text}}));
}

Result<std::string> help(const Arguments& arguments) {
  const bool json = arguments.has("json");
  if (arguments.words.empty()) return json ? as_json("help", overview_text()) : overview_text();
  const Command* command = find_command(arguments.words.front());
  if (command != nullptr) return json ? as_json("help", help_text(*command)) : help_text(*command);
  std::vector<std::string> known;
  for (const Command* one : commands()) known.emplace_back(one->name);
  const std::string nearest = nearest_name(arguments.words.front(), known);
  return input_error(fmt::format("unknown command `{}`", arguments.words.front()),
                     nearest.empty() ? "" : fmt::format("did you mean `{}`?", nearest));
}

}  // namespace

const Command kHelp = {"help", "[COMMAND]", "what a command does, its flags and examples", "twinpod help estimate\n",
                       {},     help};

std::vector<const Command*> commands() {
  return {&kDemo,       &kEstimate, &kPlan, &kTopology, &kCollective, &kProgramCommand, &kSimulate, &kTrain,  &kStudy,
          &kCheckpoint, &kCompare,  &kShow, &kValidate, &kCalibrate,  &kBench,          &kData,     &kDoctor, &kHelp};
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

std::string help_text(const Command& command) {
  Table flags = plain_table();
  for (const Flag& flag : all_flags(command)) flags.row({flag_text(flag), std::string(flag.help)});
  std::string text =
      fmt::format("twinpod {} {}\n  {}\n\nflags:\n{}", command.name, command.usage, command.summary, flags.text());
  text += "\nexamples:\n";
  std::string_view rest = command.examples;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    text += fmt::format("  {}\n", rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return text;
}

std::string overview_text() {
  Table table = plain_table();
  for (const Command* command : commands()) {
    table.row({fmt::format("{} {}", command->name, command->usage), std::string(command->summary)});
  }
  table.row({"version", "the version of the program"});
  return fmt::format(
      "twinpod: memory, step time and cost of training a model on a cluster that you need not have\n\ncommands:\n{}\n"
      "`twinpod COMMAND --help` explains a command. Exit status: 0 done, 1 the job cannot be done, 2 the input is "
      "wrong.\n",
      table.text());
}

}  // namespace twinpod::cli
