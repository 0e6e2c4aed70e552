#include "cli/args.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/nearest.hpp"

namespace twinpod::cli {
namespace {

const Flag* find_flag(std::span<const Flag> flags, std::string_view name) {
  const auto found = std::find_if(flags.begin(), flags.end(),
                                  [&](const Flag& flag) { return flag.name == name || flag.alias == name; });
  return found == flags.end() || name.empty() ? nullptr : &*found;
}

tl::unexpected<Error> unknown_flag(std::span<const Flag> flags, std::string_view name) {
  std::vector<std::string> known;
  for (const Flag& flag : flags) {
    known.emplace_back(flag.name);
    if (!flag.alias.empty()) known.emplace_back(flag.alias);
  }
  const std::string nearest = nearest_name(name, known);
  return input_error(fmt::format("unknown flag --{}", name), nearest.empty()
                                                                 ? "--help lists the flags of a command"
                                                                 : fmt::format("did you mean --{}?", nearest));
}

bool is_flag(std::string_view text) { return text.size() > 2 && text.starts_with("--"); }

// A flag may have one letter as its alias: -o is --output.
std::string long_form(std::span<const Flag> flags, const std::string& text) {
  if (text == "-h") return "--help";
  const bool is_letter = text.size() == 2 && text.front() == '-' && find_flag(flags, text.substr(1)) != nullptr;
  return is_letter ? "-" + text : text;
}

}  // namespace

bool Arguments::has(std::string_view name) const {
  const std::optional<std::string> given = value(name);
  return given && *given != "false";
}

std::optional<std::string> Arguments::value(std::string_view name) const {
  const auto found =
      std::find_if(flags.rbegin(), flags.rend(), [&](const GivenFlag& g) { return g.flag->name == name; });
  if (found == flags.rend()) return std::nullopt;
  return found->value;
}

std::string Arguments::value_or(std::string_view name, std::string_view fallback) const {
  return value(name).value_or(std::string(fallback));
}

Result<Arguments> parse_arguments(std::span<const Flag> flags, const std::vector<std::string>& texts) {
  Arguments arguments;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string spelled_out = long_form(flags, texts[i]);
    std::string_view text = spelled_out;
    if (!is_flag(text)) {
      if (text.size() > 1 && text.front() == '-') return unknown_flag(flags, text.substr(1));
      arguments.words.emplace_back(text);
      continue;
    }
    text.remove_prefix(2);
    const std::size_t equals = text.find('=');
    const std::string_view name = text.substr(0, equals);
    const Flag* flag = find_flag(flags, name);
    if (flag == nullptr) return unknown_flag(flags, name);
    GivenFlag given{flag, "true", "--" + std::string(text)};
    if (equals != std::string_view::npos) {
      given.value = text.substr(equals + 1);
    } else if (!flag->value.empty()) {
      if (i + 1 == texts.size() || is_flag(texts[i + 1])) {
        return input_error(fmt::format("--{} needs a value: --{} {}", name, name, flag->value));
      }
      given.value = texts[++i];
      given.as_written += " " + given.value;
    }
    const bool is_switch = flag->value.empty();
    if (is_switch && given.value != "true" && given.value != "false") {
      return input_error(fmt::format("--{} is a switch: found `{}`, expected true or false", name, given.value));
    }
    arguments.flags.push_back(std::move(given));
  }
  return arguments;
}

Result<int> whole_number(const Arguments& arguments, std::string_view name, int low, int fallback) {
  const std::optional<std::string> text = arguments.value(name);
  if (!text) return fallback;
  int number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error != std::errc() || end != text->data() + text->size() || number < low) {
    return input_error(fmt::format("--{}: found `{}`, expected a whole number of at least {}", name, *text, low));
  }
  return number;
}

}  // namespace twinpod::cli
