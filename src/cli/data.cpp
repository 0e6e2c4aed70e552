// twinpod data: text to token files, and what is in them.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.hpp"
#include "core/nearest.hpp"
#include "core/progress.hpp"
#include "core/quote.hpp"
#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "data/corpus.hpp"
#include "data/summary.hpp"
#include "data/tokens.hpp"
#include "report/json_parts.hpp"

namespace twinpod::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::array kFlagsOfData = {
    Flag{"output", "NAME", "prepare: write NAME.bin and NAME.idx", "", "o"},
    Flag{"tokenizer", "NAME", "prepare: bytes, 256 values and the end of a document (default bytes)", ""},
    Flag{"force", "", "prepare: replace what is there", ""},
    Flag{"check", "", "show: read every token, for the smallest and the largest", ""},
};

constexpr std::int64_t kFirstTokens = 200;

std::string count(std::int64_t number) { return with_thousands(static_cast<double>(number)); }

// Text of others need not be UTF-8, which JSON is.
std::string rows_text(const std::vector<std::vector<std::string>>& rows) {
  Table table({{""}, {"", Align::right}}, {.indent = 2, .gap = 2, .header_rule = false});
  for (const std::vector<std::string>& row : rows) table.row(row);
  return table.text();
}

std::string prepared_json(const data::Prepared& done, const data::PrepareRequest& request) {
  return report::printed({{"output", data::name_without_suffix(request.output)},
                          {"tokenizer", data::name_of(request.tokenizer)},
                          {"vocabulary", data::kBytesVocabulary},
                          {"files", done.files},
                          {"files_not_text", done.not_text},
                          {"files_empty", done.empty},
                          {"documents", done.documents},
                          {"tokens", done.tokens},
                          {"text_bytes", done.text_bytes},
                          {"output_bytes", done.output_bytes}});
}

std::string prepared_text(const data::Prepared& done, const data::PrepareRequest& request) {
  std::vector<std::vector<std::string>> rows = {{"files", count(done.files)}};
  if (done.not_text > 0) rows.push_back({"left out: NUL bytes, so no text", count(done.not_text)});
  if (done.empty > 0) rows.push_back({"left out: empty", count(done.empty)});
  rows.push_back({"documents", count(done.documents)});
  rows.push_back({"tokens", count(done.tokens)});
  rows.push_back({"text", format_bytes(static_cast<double>(done.text_bytes))});
  rows.push_back({"written", format_bytes(static_cast<double>(done.output_bytes))});
  const std::string name = data::name_without_suffix(request.output);
  return fmt::format("{0}.bin and {0}.idx, tokenizer {1}, vocabulary {2}\n\n{3}", name,
                     data::name_of(request.tokenizer), data::kBytesVocabulary, rows_text(rows));
}

Result<std::string> prepare(const Arguments& arguments) {
  const std::vector<std::string> paths(arguments.words.begin() + 1, arguments.words.end());
  if (paths.empty()) {
    return input_error("data prepare takes text files or folders of them", "twinpod data prepare docs/ -o tokens");
  }
  data::PrepareRequest request;
  request.output = arguments.value_or("output", "");
  request.replace = arguments.has("force");
  if (request.output.empty() || request.output.ends_with('/')) {
    return input_error(request.output.empty() ? "data prepare needs the name of what it writes"
                                              : fmt::format("--output {}: found a folder", request.output),
                       "add --output NAME for NAME.bin and NAME.idx");
  }
  const Result<data::Tokenizer> tokenizer = data::tokenizer_called(arguments.value_or("tokenizer", "bytes"));
  if (!tokenizer) return tl::unexpected(tokenizer.error());
  request.tokenizer = *tokenizer;
  const Result<std::vector<data::TextFile>> files = data::find_text_files(paths);
  if (!files) return tl::unexpected(files.error());
  std::size_t bytes = 0;
  for (const data::TextFile& file : *files) bytes += static_cast<std::size_t>(file.bytes);
  Progress progress("prepare", bytes);
  const Result<data::Prepared> done =
      data::prepare(*files, request, [&](std::int64_t more) { progress.advance(static_cast<std::size_t>(more)); });
  if (!done) return tl::unexpected(done.error());
  return arguments.has("json") ? prepared_json(*done, request) : prepared_text(*done, request);
}

data::TokenRange range_with_bar(const data::TokenData& data) {
  Progress progress("check", static_cast<std::size_t>(data.index.num_tokens));
  return data::token_range(data, [&](std::int64_t more) { progress.advance(static_cast<std::size_t>(more)); });
}

std::string shown_json(const data::TokenData& data, const std::optional<data::TokenRange>& range) {
  const data::Lengths lengths = data::document_lengths(data);
  ordered_json json = {{"name", data.name},
                       {"type", data::name_of(data.index.type)},
                       {"documents", data.index.num_documents},
                       {"sequences", data.index.num_sequences},
                       {"tokens", data.index.num_tokens},
                       {"shortest_document_tokens", lengths.shortest},
                       {"longest_document_tokens", lengths.longest},
                       {"mean_document_tokens", lengths.mean},
                       {"bin_bytes", data.tokens.bytes().size()},
                       {"idx_bytes", data.index_file.bytes().size()},
                       {"first_text", data::first_text(data, kFirstTokens)}};
  if (range) {
    json["smallest_token"] = range->smallest;
    json["largest_token"] = range->largest;
  }
  return report::printed(json);
}

std::string shown_text(const data::TokenData& data, const std::optional<data::TokenRange>& range) {
  const data::Lengths lengths = data::document_lengths(data);
  const double bytes = static_cast<double>(data.tokens.bytes().size() + data.index_file.bytes().size());
  std::vector<std::vector<std::string>> rows = {
      {"documents", count(data.index.num_documents)},  {"sequences", count(data.index.num_sequences)},
      {"tokens", count(data.index.num_tokens)},        {"shortest document", count(lengths.shortest)},
      {"mean document", with_thousands(lengths.mean)}, {"longest document", count(lengths.longest)},
      {"size of both files", format_bytes(bytes)},
  };
  if (range) {
    rows.push_back({"smallest token", count(range->smallest)});
    rows.push_back({"largest token", count(range->largest)});
  }
  const std::string text = data::first_text(data, kFirstTokens);
  return fmt::format("{}: tokens of type {}\n\n{}\n  it starts (tokens as bytes): {}\n", one_line(data.name),
                     data::name_of(data.index.type), rows_text(rows), text.empty() ? "(nothing)" : one_line(text));
}

Result<std::string> show_data(const Arguments& arguments) {
  if (arguments.words.size() != 2) {
    return input_error(fmt::format("data show takes one name, but {} are given", arguments.words.size() - 1),
                       "twinpod data show tokens, for tokens.bin and tokens.idx");
  }
  const Result<data::TokenData> data = data::open_tokens(arguments.words[1]);
  if (!data) return tl::unexpected(data.error());
  std::optional<data::TokenRange> range;
  if (arguments.has("check") && data->index.num_tokens > 0) range = range_with_bar(*data);
  return arguments.has("json") ? shown_json(*data, range) : shown_text(*data, range);
}

Result<std::string> run_data(const Arguments& arguments) {
  const std::string verb = arguments.words.empty() ? "" : arguments.words.front();
  if (verb == "prepare") return prepare(arguments);
  if (verb == "show") return show_data(arguments);
  const std::string nearest = nearest_name(verb, {"prepare", "show"});
  return input_error(verb.empty() ? "data takes `prepare` or `show`"
                                  : fmt::format("data: found `{}`, expected `prepare` or `show`", verb),
                     nearest.empty() ? "twinpod data prepare docs/ -o tokens"
                                     : fmt::format("did you mean `twinpod data {}`?", nearest));
}

}  // namespace

const Command kData = {"data",
                       "prepare PATH... -o NAME | show NAME",
                       "text to token files for training (Megatron's .bin and .idx), and what is in them",
                       "twinpod data prepare docs/ src/ -o tokens\n"
                       "twinpod data prepare corpus/ -o tokens --tokenizer bytes --force --json\n"
                       "twinpod data show tokens\n"
                       "twinpod data show tokens --check             # reads every token\n",
                       kFlagsOfData,
                       run_data};

}  // namespace twinpod::cli
