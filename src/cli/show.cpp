// twinpod show: what the catalog knows.
#include <fmt/format.h>

#include <array>
#include <optional>

#include "cli/command.hpp"
#include "core/nearest.hpp"
#include "report/catalog_listing.hpp"

namespace twinpod::cli {
namespace {

using spec::Shelf;

constexpr std::array kShelves = {Shelf::devices,  Shelf::links,  Shelf::nodes,
                                 Shelf::clusters, Shelf::models, Shelf::stacks};
constexpr std::string_view kParametersShelf = "parameters";

std::string_view singular(Shelf shelf) {
  const std::string_view plural = spec::folder_name(shelf);
  return plural.substr(0, plural.size() - 1);
}

// The shelf that a word names, in the plural (all of it) or in the singular (one entry).
std::optional<Shelf> shelf_called(std::string_view word) {
  for (const Shelf shelf : kShelves) {
    if (word == spec::folder_name(shelf) || word == singular(shelf)) return shelf;
  }
  return std::nullopt;
}

tl::unexpected<Error> unknown_shelf(const std::string& word) {
  std::vector<std::string> known = {std::string(kParametersShelf)};
  for (const Shelf shelf : kShelves) {
    known.emplace_back(spec::folder_name(shelf));
    known.emplace_back(singular(shelf));
  }
  const std::string nearest = nearest_name(word, known);
  return input_error(fmt::format("there is nothing called `{}` to show", word),
                     nearest.empty() ? "twinpod show devices|links|nodes|clusters|models|stacks|parameters"
                                     : fmt::format("did you mean `twinpod show {}`?", nearest));
}

template <typename T>
Result<std::string> printed(const Result<T>& answer, bool json) {
  if (!answer) return tl::unexpected(answer.error());
  return json ? report::json_of(*answer) : report::text_of(*answer);
}

Result<std::string> show(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.words;
  if (words.empty() || words.size() > 2) {
    return input_error(
        "show takes a kind of entry, and perhaps a name",
        "twinpod show devices|links|nodes|clusters|models|stacks|parameters, or twinpod show device h100-sxm");
  }
  const bool json = arguments.has("json");
  const spec::Catalog catalog = catalog_of(arguments);
  if (words[0] == kParametersShelf && words.size() == 1) return printed(report::list_parameters(catalog), json);
  const std::optional<Shelf> shelf = shelf_called(words[0]);
  if (!shelf) return unknown_shelf(words[0]);
  if (words.size() == 2) return printed(report::sheet(catalog, *shelf, words[1]), json);
  return printed(report::list(catalog, *shelf), json);
}

}  // namespace

const Command kShow = {"show",
                       "KIND | KIND NAME",
                       "the catalog: devices, links, nodes, clusters, models, stacks, parameters",
                       "twinpod show devices\n"
                       "twinpod show device h100-sxm\n"
                       "twinpod show model gpt3-175b\n"
                       "twinpod show clusters --json\n"
                       "twinpod show parameters\n",
                       {},
                       show};

}  // namespace twinpod::cli
