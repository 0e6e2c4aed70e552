// From a command line to an exit status.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "cli/command.hpp"
#include "core/guarded.hpp"
#include "core/nearest.hpp"
#include "core/quote.hpp"
#include "core/signals.hpp"
#include "report/json.hpp"

namespace twinpod::cli {
namespace {

int status_of(const Error& error) { return error.kind == ErrorKind::input ? 2 : 1; }

// Names and paths come from files of others: nothing that a terminal would obey leaves the program, whatever a report
// forgot. In JSON, YAML and scripts the escapes mean what they stand for.
void print(std::FILE* stream, const std::string& text, Colours colours = Colours::none) {
  const std::string shown = printable(text, colours);
  std::fwrite(shown.data(), 1, shown.size(), stream);
}

// An answer that starts with this has an error before it. It stands in no text.
constexpr char kWithError = '\x16';

// Else a script would take a full disk for an answer.
int print_answer(const std::string& text, Colours colours = Colours::none) {
  print(stdout, text, colours);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return 0;
  if (errno == EPIPE) end_without_reader();
  print(stderr, fmt::format("{}: standard output cannot be written: {}\n", kProgram, std::strerror(errno)));
  return 1;
}

// With --json standard output still gets its one object, so that a script need not parse messages.
int fail(const Error& error, bool json) {
  print(stderr, fmt::format("{}: {}\n", kProgram, to_string(error)));
  if (json) print(stdout, report::error_json(error));
  return status_of(error);
}

bool wants_json(const std::vector<std::string>& texts) {
  return std::find(texts.begin(), texts.end(), "--json") != texts.end();
}

// The last net under all arithmetic: a number that is not finite is no answer. JSON has a net of its own (printed() in
// report/json_parts.hpp), as it would say `null` there. Words that the user wrote may be what they like.
std::string line_without_number(const std::string& text, const std::vector<std::string>& words) {
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '/' || c == '.' || c == '`';
  };
  for (const std::string_view word : {"inf", "nan"}) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
      const std::size_t first = at > 0 && text[at - 1] == '-' ? at - 1 : at;
      const std::size_t end = at + word.size();
      if ((first > 0 && is_word(text[first - 1])) || (end < text.size() && is_word(text[end]))) continue;
      const auto has = [&](const std::string& given) { return given.find(word) != std::string::npos; };
      if (std::any_of(words.begin(), words.end(), has)) continue;
      const std::size_t line = text.rfind('\n', at) == std::string::npos ? 0 : text.rfind('\n', at) + 1;
      return text.substr(line, text.find('\n', at) - line);
    }
  }
  return "";
}

Result<std::string> finite_answer(const Command& command, const Arguments& arguments,
                                  const std::vector<std::string>& texts) {
  Result<std::string> text = guarded([&] { return command.run(arguments); });
  if (!text || arguments.has("json")) return text;
  const std::string line = line_without_number(*text, texts);
  if (line.empty()) return text;
  return infeasible(fmt::format("the answer has no finite number where it says `{}`", line),
                    "something in the input is far too large, or too small, to be computed with");
}

int answer(const Command& command, const std::vector<std::string>& texts) {
  const std::vector<Flag> flags = all_flags(command);
  const bool json = wants_json(texts);
  const Result<Arguments> arguments = parse_arguments(flags, texts);
  if (!arguments) return fail(arguments.error(), json);
  if (arguments->has("help")) return print_answer(help_answer(help_text(command), json));
  const Result<std::string> text = finite_answer(command, *arguments, texts);
  if (!text) return fail(text.error(), json);
  if (!text->starts_with(kWithError)) return print_answer(*text, command.colours);
  const std::size_t end = std::min(text->find(kWithError, 1), text->size() - 1);
  (void)print_answer(text->substr(end + 1));
  print(stderr, fmt::format("{}: {}\n", kProgram, text->substr(2, end - 2)));
  return (*text)[1] - '0';
}

}  // namespace

std::string answer_with_error(const std::string& answer, const Error& error) {
  return fmt::format("{}{}{}{}{}", kWithError, status_of(error), to_string(error), kWithError, answer);
}

int run(const std::vector<std::string>& texts) {
  if (texts.empty()) return answer(kDemo, {});
  const std::string& first = texts.front();
  const std::vector<std::string> others(texts.begin() + 1, texts.end());
  if (first == "--help" || first == "-h") return answer(kHelp, others);
  if (first == "--version") return answer(kVersionCommand, others);
  const Command* command = find_command(first);
  if (command == nullptr) return fail(unknown_command(first).value(), wants_json(texts));
  return answer(*command, others);
}

}  // namespace twinpod::cli
