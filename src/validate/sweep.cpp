#include "validate/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "plan/estimate.hpp"
#include "plan/memory.hpp"
#include "spec/bounds.hpp"
#include "spec/node.hpp"
#include "spec/reader.hpp"

namespace twinpod::validate {
namespace {

using spec::Context;
using spec::Node;
using spec::Reader;

// Counts of a row that a sweep may state, with the most that they may be.
struct CountKey {
  std::string_view key;
  double PublishedRun::*member;
  int most;
};
constexpr CountKey kCounts[] = {{"layers", &PublishedRun::layers, spec::kMaxLayers},
                                {"hidden", &PublishedRun::hidden, spec::kMaxWidth},
                                {"heads", &PublishedRun::heads, spec::kMaxHeads},
                                {"ffn", &PublishedRun::ffn, spec::kMaxWidth},
                                {"vocab", &PublishedRun::vocab, spec::kMaxVocab},
                                {"seq", &PublishedRun::seq, spec::kMaxSequence},
                                {"devices", &PublishedRun::devices, spec::kMaxDevices},
                                {"devices_per_node", &PublishedRun::devices_per_node, spec::kMaxDevices},
                                {"tp", &PublishedRun::tp, spec::kMaxParallel},
                                {"pp", &PublishedRun::pp, spec::kMaxParallel},
                                {"vpp", &PublishedRun::vpp, spec::kMaxParallel},
                                {"cp", &PublishedRun::cp, spec::kMaxParallel},
                                {"mbs", &PublishedRun::mbs, 1 << 20}};

void read_switch(Reader& reader, std::string_view key, int& value) {
  if (!reader.has(key)) {
    reader.take(key);
    return;
  }
  bool on = false;
  reader.flag(key, on);
  value = on ? 1 : 0;
}

// What the mapping states, over what the run has already.
void read_row(const Node& node, Context& context, std::string_view what, PublishedRun& run) {
  Reader reader(node, context, std::string(what));
  for (const auto& [key, member, most] : kCounts) {
    int value = 0;
    reader.count(key, value, 1, most);
    if (value > 0) run.*member = value;
  }
  for (const auto& [key, member] :
       {std::pair{"model", &PublishedRun::model}, std::pair{"device", &PublishedRun::device},
        std::pair{"framework", &PublishedRun::framework}, std::pair{"date", &PublishedRun::date},
        std::pair{"precision", &PublishedRun::precision}, std::pair{"recompute", &PublishedRun::recompute},
        std::pair{"schedule", &PublishedRun::schedule}, std::pair{"sharding", &PublishedRun::sharding}}) {
    reader.text(key, run.*member);
  }
  reader.quantity("intra_gbs", run.intra_gbs, Quantity::number, 0, 1e6);
  reader.quantity("inter_gbps_per_device", run.inter_gbps_per_device, Quantity::number, 0, 1e6);
  reader.count("zero_stage", run.zero_stage, 0, 3);
  read_switch(reader, "sp", run.sp);
  read_switch(reader, "gated_mlp", run.gated_mlp);
  reader.finish();
}

// "tp 8, pp 8": a point as it is written.
std::string written(const Node& point) {
  std::string text;
  for (std::size_t i = 0; i < point.keys.size(); ++i) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", point.keys[i], point.items[i].scalar);
  }
  return text;
}

const Node* list(Reader& reader, Context& context, std::string_view key, std::size_t least) {
  const Node* node = reader.take(key);
  if (node == nullptr) return nullptr;
  if (node->kind == Node::Kind::sequence && node->items.size() >= least) return node;
  context.refuse(*node, fmt::format("{} is {}; expected a list of at least {}", key, spec::description(*node), least));
  return nullptr;
}

// One sweep for each of its batches.
std::vector<Sweep> read_points(Reader& reader, Context& context, const Sweep& head) {
  for (const std::string_view key : {"shared", "batches", "points", "winner"}) reader.require(key);
  PublishedRun shared;
  shared.kind = "llm_training";
  shared.source = head.source;
  if (const Node* node = reader.mapping("shared")) read_row(*node, context, "shared", shared);
  std::vector<int> batches;
  reader.counts("batches", batches, 1, 1 << 30);
  const Node* points = list(reader, context, "points", 2);
  const Node* winner = reader.mapping("winner");
  std::vector<Sweep> sweeps;
  if (points == nullptr || winner == nullptr) return sweeps;
  for (const int batch : batches) {
    Sweep& sweep = sweeps.emplace_back(head);
    sweep.id = fmt::format("{}-gbs{}", head.id, batch);
    sweep.winner = points->items.size();
    for (const Node& point : points->items) {
      PublishedRun run = shared;
      run.gbs = batch;
      run.id = written(point);
      read_row(point, context, "point", run);
      if (run.id == written(*winner)) sweep.winner = sweep.points.size();
      sweep.points.push_back({std::move(run), 0});
    }
    if (sweep.winner == points->items.size())
      context.refuse(*winner, fmt::format("winner {} is none of the points", written(*winner)));
  }
  return sweeps;
}

double measured_rate(const PublishedRun& run) { return run.gbs * run.seq / run.measured_s(); }

auto layout_of(const PublishedRun& run) {
  return std::tie(run.tp, run.pp, run.vpp, run.cp, run.ep, run.mbs, run.zero_stage, run.sp, run.recompute,
                  run.schedule);
}

// A repeat of a layout replaces the slower one.
void add_measured(const PublishedRun& run, Sweep& sweep) {
  const SweepPoint point{run, measured_rate(run)};
  const auto same = std::find_if(sweep.points.begin(), sweep.points.end(),
                                 [&](const SweepPoint& other) { return layout_of(other.run) == layout_of(run); });
  if (same == sweep.points.end())
    sweep.points.push_back(point);
  else if (point.measured_tokens_per_s > same->measured_tokens_per_s)
    *same = point;
}

std::vector<Sweep> read_rows(Reader& reader, Context& context, Sweep sweep,
                             const std::map<std::string, const PublishedRun*>& run_of_id) {
  reader.require("winner");
  const Node* rows = list(reader, context, "runs", 2);
  std::string winner;
  reader.text("winner", winner);
  if (rows == nullptr) return {};
  for (const Node& row : rows->items) {
    const auto found = run_of_id.find(row.scalar);
    if (found == run_of_id.end() || found->second->measured_s() <= 0) {
      context.refuse(row, fmt::format("runs holds {}; expected the id of a measured run", spec::description(row)));
      return {};
    }
    add_measured(*found->second, sweep);
  }
  const auto best = std::find_if(sweep.points.begin(), sweep.points.end(),
                                 [&](const SweepPoint& point) { return point.run.id == winner; });
  if (best == sweep.points.end())
    context.refuse(reader.place("winner"),
                   fmt::format("winner {} is none of the runs, or not the best repeat", winner));
  sweep.winner = static_cast<std::size_t>(best - sweep.points.begin());
  return {std::move(sweep)};
}

std::vector<Sweep> read_sweep(const Node& node, Context& context,
                              const std::map<std::string, const PublishedRun*>& run_of_id) {
  Reader reader(node, context, "sweep");
  for (const std::string_view key : {"id", "source"}) reader.require(key);
  Sweep head;
  reader.text("id", head.id);
  reader.prose("source", head.source);
  reader.prose("finding", head.finding);
  std::vector<Sweep> sweeps =
      reader.has("runs") ? read_rows(reader, context, head, run_of_id) : read_points(reader, context, head);
  reader.finish();
  return sweeps;
}

}  // namespace

Result<std::vector<Sweep>> read_sweeps(const std::string& path, const std::vector<PublishedRun>& runs) {
  const Result<Node> root = spec::parse_yaml_file(path);
  if (!root) return tl::unexpected(root.error());
  Context context(path);
  if (root->kind != Node::Kind::sequence) context.refuse(*root, "expected a list of sweeps");
  std::map<std::string, const PublishedRun*> run_of_id;
  for (const PublishedRun& run : runs) run_of_id.emplace(run.id, &run);
  std::vector<Sweep> sweeps;
  for (const Node& node : root->items) {
    for (Sweep& sweep : read_sweep(node, context, run_of_id)) sweeps.push_back(std::move(sweep));
    if (context.failed()) return tl::unexpected(context.error());
  }
  return sweeps;
}

Result<std::vector<Sweep>> read_catalog_sweeps(const spec::Catalog& catalog) {
  const Result<std::vector<PublishedRun>> runs = read_catalog_runs(catalog);
  if (!runs) return tl::unexpected(runs.error());
  return read_sweeps(catalog.folder() + "/sweeps.yaml", *runs);
}

Result<SweepRanking> rank_points(const Sweep& sweep, Library& library) {
  SweepRanking ranking;
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const Result<RunJob> made = job_of(sweep.points[i].run, library);
    if (!made) return tl::unexpected(made.error());
    const spec::Job& job = made->job;
    const double tokens = job.training.global_batch * job.training.sequence;
    const double memory = plan::peak_memory(job).needed();
    ranking.ranked.push_back(
        {i, tokens / plan::step_time(job).total_s, memory, memory <= job.cluster.device.memory_bytes});
  }
  std::stable_sort(ranking.ranked.begin(), ranking.ranked.end(), [](const RankedPoint& a, const RankedPoint& b) {
    return a.fits != b.fits ? a.fits : a.tokens_per_s > b.tokens_per_s;
  });
  const auto winner = std::find_if(ranking.ranked.begin(), ranking.ranked.end(),
                                   [&](const RankedPoint& one) { return one.point == sweep.winner; });
  ranking.winner_rank = static_cast<int>(winner - ranking.ranked.begin()) + 1;
  const RankedPoint& best = ranking.ranked.front();
  ranking.winner_lag = 1 - winner->tokens_per_s / best.tokens_per_s;
  const double measured = sweep.points[sweep.winner].measured_tokens_per_s;
  if (measured > 0) ranking.regret = 1 - sweep.points[best.point].measured_tokens_per_s / measured;
  return ranking;
}

}  // namespace twinpod::validate
