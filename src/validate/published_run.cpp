#include "validate/published_run.hpp"

#include <fmt/format.h>

#include <cmath>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/files.hpp"
#include "core/units.hpp"
#include "spec/bounds.hpp"
#include "spec/node.hpp"

namespace twinpod::validate {
namespace {

using spec::Node;

constexpr std::pair<std::string_view, std::string PublishedRun::*> kTexts[] = {
    {"id", &PublishedRun::id},
    {"kind", &PublishedRun::kind},
    {"task", &PublishedRun::task},
    {"grade", &PublishedRun::grade},
    {"source", &PublishedRun::source},
    {"model", &PublishedRun::model},
    {"framework", &PublishedRun::framework},
    {"date", &PublishedRun::date},
    {"device", &PublishedRun::device},
    {"precision", &PublishedRun::precision},
    {"recompute", &PublishedRun::recompute},
    {"schedule", &PublishedRun::schedule},
    {"sharding", &PublishedRun::sharding},
    {"intra_link", &PublishedRun::intra_link},
    {"remark", &PublishedRun::remark}};

constexpr std::pair<std::string_view, double PublishedRun::*> kNumbers[] = {
    {"layers", &PublishedRun::layers},
    {"hidden", &PublishedRun::hidden},
    {"heads", &PublishedRun::heads},
    {"kv_heads", &PublishedRun::kv_heads},
    {"head_dim", &PublishedRun::head_dim},
    {"ffn", &PublishedRun::ffn},
    {"vocab", &PublishedRun::vocab},
    {"seq", &PublishedRun::seq},
    {"experts", &PublishedRun::experts},
    {"topk", &PublishedRun::topk},
    {"devices", &PublishedRun::devices},
    {"devices_per_node", &PublishedRun::devices_per_node},
    {"intra_gbs", &PublishedRun::intra_gbs},
    {"inter_gbps_per_device", &PublishedRun::inter_gbps_per_device},
    {"peak_tflops", &PublishedRun::peak_tflops},
    {"tp", &PublishedRun::tp},
    {"pp", &PublishedRun::pp},
    {"vpp", &PublishedRun::vpp},
    {"dp", &PublishedRun::dp},
    {"cp", &PublishedRun::cp},
    {"ep", &PublishedRun::ep},
    {"etp", &PublishedRun::etp},
    {"mbs", &PublishedRun::mbs},
    {"gbs", &PublishedRun::gbs},
    {"grad_accum", &PublishedRun::grad_accum},
    {"iter_time_s", &PublishedRun::iter_time_s},
    {"iter_time_s_derived", &PublishedRun::iter_time_s_derived},
    {"mem_gb", &PublishedRun::mem_gb}};

// Keys that count something, with the most that they may be.
struct CountKey {
  std::string_view key;
  double PublishedRun::*member;
  double most;
};
constexpr CountKey kCounts[] = {{"layers", &PublishedRun::layers, spec::kMaxLayers},
                                {"hidden", &PublishedRun::hidden, spec::kMaxWidth},
                                {"heads", &PublishedRun::heads, spec::kMaxHeads},
                                {"kv_heads", &PublishedRun::kv_heads, spec::kMaxHeads},
                                {"head_dim", &PublishedRun::head_dim, spec::kMaxHeadDim},
                                {"ffn", &PublishedRun::ffn, spec::kMaxWidth},
                                {"vocab", &PublishedRun::vocab, spec::kMaxVocab},
                                {"seq", &PublishedRun::seq, spec::kMaxSequence},
                                {"experts", &PublishedRun::experts, spec::kMaxExperts},
                                {"topk", &PublishedRun::topk, spec::kMaxExperts},
                                {"devices", &PublishedRun::devices, spec::kMaxDevices},
                                {"devices_per_node", &PublishedRun::devices_per_node, spec::kMaxDevices},
                                {"tp", &PublishedRun::tp, spec::kMaxParallel},
                                {"pp", &PublishedRun::pp, spec::kMaxParallel},
                                {"vpp", &PublishedRun::vpp, spec::kMaxParallel},
                                {"cp", &PublishedRun::cp, spec::kMaxParallel},
                                {"ep", &PublishedRun::ep, spec::kMaxParallel},
                                {"etp", &PublishedRun::etp, spec::kMaxParallel},
                                {"mbs", &PublishedRun::mbs, spec::kMaxBatch},
                                {"gbs", &PublishedRun::gbs, spec::kMaxBatch}};

Error at(const Node& node, const std::string& file, std::string message) {
  return Error{ErrorKind::input, std::move(message), "", file, node.line, node.column};
}

bool is_absent(const Node* node) { return node == nullptr || node->kind == Node::Kind::null || node->scalar == "null"; }

Result<int> read_switch(const Node& row, std::string_view key, const std::string& file) {
  const Node* node = row.find(key);
  if (is_absent(node)) return -1;
  if (node->scalar == "true") return 1;
  if (node->scalar == "false") return 0;
  return tl::unexpected(at(*node, file, fmt::format("{}: found '{}', expected true or false", key, node->scalar)));
}

Result<PublishedRun> read_run(const Node& row, const std::string& file) {
  if (row.kind != Node::Kind::mapping) return tl::unexpected(at(row, file, "expected a run: {id: …, kind: …, …}"));
  PublishedRun run;
  run.file = file;
  run.line = row.line;
  for (const auto& [key, member] : kTexts) {
    const Node* node = row.find(key);
    if (!is_absent(node)) run.*member = node->scalar;
  }
  for (const auto& [key, member] : kNumbers) {
    const Node* node = row.find(key);
    if (is_absent(node)) continue;
    const Result<double> number = parse_quantity(node->scalar, Quantity::number);
    if (!number || *number < 0) {
      return tl::unexpected(
          at(*node, file, fmt::format("{}: found '{}', expected a number that is not negative", key, node->scalar)));
    }
    run.*member = *number;
  }
  for (const auto& [key, member, most] : kCounts) {
    const double value = run.*member;
    if (value == std::floor(value) && value <= most) continue;
    const Node* node = row.find(key);
    return tl::unexpected(
        at(*node, file, fmt::format("{}: found '{}', expected a whole number up to {}", key, node->scalar, most)));
  }
  const Node* notes = row.find("notes");
  if (run.remark.empty() && !is_absent(notes)) run.remark = notes->scalar;
  const Node* zero = row.find("zero_stage");
  if (!is_absent(zero)) {
    const Result<double> stage = parse_quantity(zero->scalar, Quantity::number);
    if (!stage || *stage < 0 || *stage > 3 || *stage != std::floor(*stage))
      return tl::unexpected(at(*zero, file, fmt::format("zero_stage: found '{}', expected 0 to 3", zero->scalar)));
    run.zero_stage = static_cast<int>(*stage);
  }
  const Result<int> sp = read_switch(row, "sp", file);
  if (!sp) return tl::unexpected(sp.error());
  run.sp = *sp;
  const Result<int> gated = read_switch(row, "gated_mlp", file);
  if (!gated) return tl::unexpected(gated.error());
  run.gated_mlp = *gated;
  if (run.id.empty()) return tl::unexpected(at(row, file, "a run needs an id"));
  return run;
}

}  // namespace

Result<std::vector<PublishedRun>> read_runs(const std::string& path) {
  const Result<Node> root = spec::parse_yaml_file(path);
  if (!root) return tl::unexpected(root.error());
  if (root->kind != Node::Kind::sequence) return tl::unexpected(at(*root, path, "expected a list of runs"));
  std::vector<PublishedRun> runs;
  runs.reserve(root->items.size());
  for (const Node& row : root->items) {
    Result<PublishedRun> run = read_run(row, path);
    if (!run) return tl::unexpected(run.error());
    runs.push_back(std::move(*run));
  }
  return runs;
}

Result<std::vector<PublishedRun>> read_catalog_runs(const spec::Catalog& catalog) {
  std::vector<PublishedRun> all;
  for (const std::string& name : catalog.names(spec::Shelf::runs)) {
    const Result<std::string> path = catalog.path(spec::Shelf::runs, name);
    if (!path) return tl::unexpected(path.error());
    const Result<std::vector<PublishedRun>> runs = read_runs(*path);
    if (!runs) return tl::unexpected(runs.error());
    all.insert(all.end(), runs->begin(), runs->end());
  }
  return all;
}

Result<std::vector<std::string>> reference_ids(const spec::Catalog& catalog) {
  const std::string path = catalog.folder() + "/runs/reference.txt";
  const Result<std::string> text = read_file(path);
  if (!text) return tl::unexpected(text.error());
  std::istringstream in(*text);
  std::vector<std::string> ids;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] != '#') ids.push_back(line);
  }
  return ids;
}

}  // namespace twinpod::validate
