#include "cli/checkpoint_tensors.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/nearest.hpp"
#include "core/progress.hpp"
#include "core/quote.hpp"
#include "core/table.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/json_parts.hpp"
#include "store/pick.hpp"
#include "store/safetensors.hpp"
#include "store/tensor_values.hpp"
#include "store/weights_file.hpp"

namespace twinpod::cli {
namespace {

using nlohmann::ordered_json;
using store::PickedCheckpoint;
using store::StoredTensor;

constexpr std::size_t kShownText = 60;

std::int64_t bytes_of(const StoredTensor& tensor) {
  return store::num_elements(tensor.shape) * store::element_bytes(tensor.dtype);
}

// On one line and not too long.
std::string shortened(std::string text) {
  for (char& c : text) c = static_cast<unsigned char>(c) < ' ' || c == 127 ? ' ' : c;
  return text.size() <= kShownText ? text : text.substr(0, kShownText) + "...";
}

Result<PickedCheckpoint> pick(const Arguments& arguments, const std::string& address) {
  const Result<int> step = whole_number(arguments, "step", 0, 0);
  if (!step) return tl::unexpected(step.error());
  return store::pick_checkpoint(address, arguments.has("step") ? std::optional<std::int64_t>(*step) : std::nullopt);
}

store::ReadFrom read_from(const PickedCheckpoint& picked) {
  return {*picked.store.files, picked.folder(), picked.manifest};
}

ordered_json json_of(const StoredTensor& tensor) {
  return {{"name", tensor.name},
          {"dtype", tensor.dtype},
          {"shape", tensor.shape},
          {"regions", tensor.regions.size()},
          {"bytes", bytes_of(tensor)}};
}

// Values of a run are kept as exact hexadecimal; people and scripts read decimals. `digits` 0: as many as make it
// exact.
std::string plain_numbers(const std::string& text, int digits) {
  std::string plain;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    char* rest = nullptr;
    const double number = std::strtod(word.c_str(), &rest);
    const bool is_exact = word.find("0x") <= 1 && word.find('p') != std::string::npos && *rest == '\0';
    if (begin > 0) plain += ' ';
    plain += !is_exact ? word : digits > 0 ? fmt::format("{:.{}g}", number, digits) : fmt::format("{}", number);
    begin = end + 1;
  }
  return plain;
}

std::string shown_json(const PickedCheckpoint& picked) {
  const store::Manifest& manifest = picked.manifest;
  ordered_json json = {{"path", picked.address()},          {"step", manifest.state.step},
                       {"samples", manifest.state.samples}, {"bytes", store::total_bytes(manifest)},
                       {"shards", manifest.shards.size()},  {"extent_bytes", manifest.extent_bytes}};
  json["random"] = ordered_json::array();
  for (const auto& [name, bytes] : manifest.state.random) json["random"].push_back(name);
  json["values"] = ordered_json::object();
  for (const auto& [name, text] : manifest.state.values) json["values"][name] = plain_numbers(text, 0);
  json["tensors"] = ordered_json::array();
  for (const StoredTensor& tensor : manifest.tensors) json["tensors"].push_back(json_of(tensor));
  return report::printed(json);
}

std::string shown_text(const PickedCheckpoint& picked) {
  const store::Manifest& manifest = picked.manifest;
  Table state({{""}, {""}}, {.indent = 2, .gap = 2, .header_rule = false});
  state.row({"step", fmt::to_string(manifest.state.step)});
  state.row({"samples", fmt::to_string(manifest.state.samples)});
  for (const auto& [name, text] : manifest.state.values)
    state.row({shortened(name), shortened(plain_numbers(text, 5))});
  for (const auto& [name, bytes] : manifest.state.random) {
    state.row({"random " + shortened(name), fmt::format("{} bytes", bytes.size())});
  }
  Table tensors({{"tensor"}, {"type"}, {"shape"}, {"regions", Align::right}, {"size", Align::right}});
  for (const StoredTensor& tensor : manifest.tensors) {
    tensors.row({tensor.name, tensor.dtype, store::to_string(tensor.shape), fmt::to_string(tensor.regions.size()),
                 format_bytes(static_cast<double>(bytes_of(tensor)))});
  }
  return fmt::format("{}: {} in {}\n\n{}\n{}", picked.address(),
                     format_bytes(static_cast<double>(store::total_bytes(manifest))),
                     counted(static_cast<double>(manifest.shards.size()), "shard"), state.text(), tensors.text());
}

Result<const StoredTensor*> tensor_called(const PickedCheckpoint& picked, const std::string& name) {
  if (const StoredTensor* found = store::find_tensor(picked.manifest, name)) return found;
  std::vector<std::string> known;
  for (const StoredTensor& tensor : picked.manifest.tensors) known.push_back(tensor.name);
  const std::string nearest = nearest_name(name, known);
  return input_error(fmt::format("{} has no tensor `{}`", picked.address(), name),
                     nearest.empty()
                         ? fmt::format("twinpod checkpoint show {} lists them", shell_quoted(picked.address()))
                         : fmt::format("did you mean `{}`?", nearest));
}

Result<std::string> show_tensor(const PickedCheckpoint& picked, const std::string& name, bool as_json) {
  const Result<const StoredTensor*> tensor = tensor_called(picked, name);
  if (!tensor) return tl::unexpected(tensor.error());
  const Result<store::TensorSummary> summary = store::summary_of(read_from(picked), **tensor);
  if (!summary) return tl::unexpected(summary.error());
  if (as_json) {
    ordered_json json = json_of(**tensor);
    json.update({{"elements", summary->elements},
                 {"min", summary->min},
                 {"max", summary->max},
                 {"mean", summary->mean},
                 {"norm", summary->norm},
                 {"nan", summary->num_nan},
                 {"infinite", summary->num_infinite}});
    return report::printed(json);
  }
  Table table({{""}, {"", Align::right}}, {.indent = 2, .gap = 2, .header_rule = false});
  table.row({"elements", fmt::to_string(summary->elements)});
  table.row({"smallest", fmt::format("{:.6g}", summary->min)});
  table.row({"largest", fmt::format("{:.6g}", summary->max)});
  table.row({"mean", fmt::format("{:.6g}", summary->mean)});
  table.row({"norm", fmt::format("{:.6g}", summary->norm)});
  table.row({"not a number", fmt::to_string(summary->num_nan)});
  table.row({"infinite", fmt::to_string(summary->num_infinite)});
  return fmt::format("{} of {}: {} {}, every byte as it was written\n\n{}", name, picked.address(), (*tensor)->dtype,
                     store::to_string((*tensor)->shape), table.text());
}

std::string difference_json(const store::Difference& difference) {
  ordered_json json = {{"same", difference.num_same}, {"different", difference.tensors.size()}};
  json["state"] = ordered_json::array();
  for (const store::StateDifference& one : difference.state) {
    json["state"].push_back({{"key", one.key}, {"a", one.a}, {"b", one.b}});
  }
  json["tensors"] = ordered_json::array();
  for (const store::TensorDifference& one : difference.tensors) {
    ordered_json row = {{"name", one.name}};
    if (!one.problem.empty()) row["problem"] = one.problem;
    row.update({{"elements", one.elements},
                {"elements_different", one.num_different},
                {"elements_not_finite", one.num_apart},
                {"max_absolute", one.max_absolute},
                {"max_relative", one.max_relative}});
    json["tensors"].push_back(std::move(row));
  }
  return report::printed(json);
}

std::string difference_text(const store::Difference& difference) {
  std::string text = fmt::format(
      "{} differ{}, {} {} the same bit by bit\n", counted(difference.tensors.size(), "tensor"),
      difference.tensors.size() == 1 ? "s" : "", difference.num_same, difference.num_same == 1 ? "is" : "are");
  if (!difference.state.empty()) {
    Table state({{"state"}, {"first"}, {"second"}}, {.indent = 2});
    for (const store::StateDifference& one : difference.state) {
      state.row({shortened(one.key), shortened(one.a), shortened(one.b)});
    }
    text += "\n" + state.text();
  }
  if (difference.tensors.empty()) return text;
  Table tensors({{"tensor"},
                 {"elements", Align::right},
                 {"different", Align::right},
                 {"largest", Align::right},
                 {"relative", Align::right},
                 {""}},
                {.indent = 2});
  for (const store::TensorDifference& one : difference.tensors) {
    const std::string note = one.num_apart > 0 ? fmt::format("{} not finite", one.num_apart) : "";
    if (one.problem.empty()) {
      tensors.row({one.name, fmt::to_string(one.elements), fmt::to_string(one.num_different),
                   fmt::format("{:.3g}", one.max_absolute), fmt::format("{:.3g}", one.max_relative), note});
    } else {
      tensors.row({one.name, "", "", "", "", one.problem});
    }
  }
  return text + "\n" + tensors.text();
}

std::int64_t bytes_to_export(const store::Manifest& manifest, bool optimizer) {
  std::int64_t bytes = 0;
  for (const StoredTensor& tensor : manifest.tensors) {
    if (optimizer || store::is_weight(tensor.name)) bytes += bytes_of(tensor);
  }
  return bytes;
}

}  // namespace

Result<std::string> show_checkpoint(const Arguments& arguments, const std::vector<std::string>& words) {
  const Result<PickedCheckpoint> picked = pick(arguments, words[0]);
  if (!picked) return tl::unexpected(picked.error());
  const bool json = arguments.has("json");
  if (const auto name = arguments.value("tensor")) return show_tensor(*picked, *name, json);
  return json ? shown_json(*picked) : shown_text(*picked);
}

Result<std::string> diff_checkpoints(const Arguments& arguments, const std::vector<std::string>& words) {
  const Result<PickedCheckpoint> a = pick(arguments, words[0]);
  if (!a) return tl::unexpected(a.error());
  const Result<PickedCheckpoint> b = pick(arguments, words[1]);
  if (!b) return tl::unexpected(b.error());
  const Result<store::Difference> difference = store::difference_of(read_from(*a), read_from(*b));
  if (!difference) return tl::unexpected(difference.error());
  if (arguments.has("json")) return difference_json(*difference);
  return fmt::format("{} and {}\n{}", a->address(), b->address(), difference_text(*difference));
}

Result<std::string> export_checkpoint(const Arguments& arguments, const std::vector<std::string>& words) {
  store::ExportRequest request{.path = arguments.value_or("output", ""),
                               .optimizer = arguments.has("optimizer"),
                               .replace = arguments.has("force")};
  if (request.path.empty()) return input_error("checkpoint export needs a file to write", "add -o model.safetensors");
  const Result<PickedCheckpoint> picked = pick(arguments, words[0]);
  if (!picked) return tl::unexpected(picked.error());
  Progress progress("export", static_cast<std::size_t>(bytes_to_export(picked->manifest, request.optimizer)));
  request.on_bytes = [&](std::int64_t bytes) { progress.advance(static_cast<std::size_t>(bytes)); };
  const Result<store::Exported> done = store::export_weights(read_from(*picked), request);
  if (!done) return tl::unexpected(done.error());
  if (arguments.has("json")) {
    return report::printed({{"path", request.path}, {"tensors", done->num_tensors}, {"bytes", done->bytes}});
  }
  return fmt::format("{}: {} of step {}, {}\n", request.path, counted(done->num_tensors, "tensor"),
                     picked->manifest.state.step, format_bytes(static_cast<double>(done->bytes)));
}

Result<std::string> import_checkpoint(const Arguments& arguments, const std::vector<std::string>& words) {
  const std::string output = arguments.value_or("output", "");
  if (output.empty()) return input_error("checkpoint import needs a store to save to", "add -o runs/b");
  const Result<store::OpenedStore> opened = store::open_files(output);
  if (!opened) return tl::unexpected(opened.error());
  const Result<std::string> name = store::import_weights(words, *opened->files, opened->root);
  if (!name) return tl::unexpected(name.error());
  const std::string path = opened->address + "/" + *name;
  if (arguments.has("json")) return report::printed({{"path", path}, {"step", 0}});
  return fmt::format("{}: step 0, weights of {}\n", path, fmt::join(words, ", "));
}

}  // namespace twinpod::cli
