#include "train/rehearse.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "core/half.hpp"
#include "core/rng.hpp"
#include "kernel/gemm.hpp"
#include "kernel/sample.hpp"
#include "train/loop_timeline.hpp"

namespace twinpod::train {
namespace {

using program::Block;
using program::Instance;
using program::Kind;
using program::Op;
using program::OpKind;
using program::OpSeconds;
using program::Phase;
using program::Program;

constexpr double kRoundSeconds = 0.3;  // of which as many layers are as fit
constexpr double kSeconds = 1.5;       // rounds end then
constexpr int kMostRounds = 100;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Of each chunk the first micro-batch forth, then back; and what ends a step.
std::vector<int> instances_of(const Program& program, const Kind& kind) {
  std::vector<int> forth;
  std::vector<int> back;
  std::vector<int> end;
  std::vector<bool> seen(2 * kind.chunks.size());
  for (int i = 0; i < static_cast<int>(kind.instances.size()); ++i) {
    const Instance& one = kind.instances[at(i)];
    const Phase phase = program.blocks[at(one.block)].phase;
    if (phase == Phase::update || one.chunk[0] < 0) {
      end.push_back(i);
      continue;
    }
    const bool forward = phase == Phase::forward;
    const std::size_t which = 2 * at(one.chunk[0]) + (forward ? 0 : 1);
    if (one.micro_batch[0] != 0 || seen[which]) continue;
    seen[which] = true;
    std::vector<int>& list = forward ? forth : back;
    list.insert(forward ? list.end() : list.begin(), i);
  }
  forth.insert(forth.end(), back.begin(), back.end());
  forth.insert(forth.end(), end.begin(), end.end());
  return forth;
}

// The ops of a round, in the order of their spans.
std::vector<const Op*> ops_of(const Program& program, const Kind& kind, int layers) {
  std::vector<const Op*> ops;
  for (const int i : instances_of(program, kind)) {
    for (const Op& op : program.blocks[at(kind.instances[at(i)].block)].ops) {
      if (op.layer < layers) ops.push_back(&op);
    }
  }
  return ops;
}

int layers_of(const Program& program) {
  std::size_t most = 1;
  for (const program::Shape& shape : program.shapes) most = std::max(most, shape.layers.size());
  return static_cast<int>(most);
}

// Everything that a pass reads, as a step has it: numbers of usual size (tiles need less power for zeros), and tokens
// from all over the vocabulary.
template <typename T>
void fill(Rank<T>& rank) {
  Rng rng(1);
  for (std::vector<std::int32_t>* list : {&rank.tokens, &rank.labels}) {
    for (std::int32_t& token : *list)
      token = static_cast<std::int32_t>(rng.next() % static_cast<std::uint64_t>(rank.job.model.vocab));
  }
  const auto bytes = static_cast<std::size_t>(rank.sizes.tokens * rank.sizes.hidden) * sizeof(T);
  for (const std::int64_t place : {rank.places.stream, rank.places.gradient})
    kernel::fill_sample({reinterpret_cast<std::byte*>(rank.space(place)), bytes});  // NOLINT: raw memory
}

// Gradients are 0 by the end of a round, and the rate is: so the optimizer leaves all as it was.
template <typename T>
void clear_all_gradients(Rank<T>& rank) {
  const std::int64_t shards = rank.shards_gradients ? rank.pieces.shards : 1;
  std::fill_n(rank.gradients, rank.pieces.elements / shards, Sum<T>{0});
  rank.loss_sum = 0;
}

// Seconds of its ops.
template <typename T>
Result<std::vector<double>> run_round(Rank<T>& rank, int layers) {
  const auto passes = rank.passes;
  begin_step(rank);
  rank.drops = true;
  // All micro-batches but the first add to gradients.
  if (rank.program.micro_batches > 1) rank.passes = passes;
  const Kind& kind = rank.program.kinds[at(rank.kind)];
  bool is_end = false;
  for (const int i : instances_of(rank.program, kind)) {
    const bool ends = rank.program.blocks[at(kind.instances[at(i)].block)].phase == Phase::update;
    if (ends && !is_end) {
      if (Result<void> done = end_passes(rank); !done) return tl::unexpected(done.error());
      clear_all_gradients(rank);
      is_end = true;
    }
    if (Result<void> done = run_instance(rank, i, layers); !done) return tl::unexpected(done.error());
  }
  if (Result<void> done = end_passes(rank); !done) return tl::unexpected(done.error());
  std::vector<double> seconds;
  for (const program::OpSpan& span : rank.timeline.ops) seconds.push_back(span.end_s - span.start_s);
  return seconds;
}

template <typename T>
Result<double> largest_of_ranks(Rank<T>& rank, double value) {
  const Result<std::vector<double>> all = gather(rank.world, value);
  if (!all) return tl::unexpected(all.error());
  return *std::max_element(all->begin(), all->end());
}

double sum_of(const std::vector<double>& seconds) { return std::accumulate(seconds.begin(), seconds.end(), 0.0); }

// As many layers as a round has time for, at least as many as it took to find that out.
template <typename T>
Result<int> layers_for(Rank<T>& rank, int tried, const std::vector<double>& seconds) {
  const std::vector<const Op*> ops = ops_of(rank.program, rank.program.kinds[at(rank.kind)], tried);
  double of_layers = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) of_layers += ops[i]->layer >= 0 ? seconds[i] : 0;
  const double wanted = tried * (kRoundSeconds - (sum_of(seconds) - of_layers)) / std::max(of_layers, 1e-9);
  const Result<double> least = largest_of_ranks(rank, -wanted);
  if (!least) return tl::unexpected(least.error());
  return static_cast<int>(std::clamp<double>(-*least, tried, layers_of(rank.program)));
}

using Rounds = std::vector<std::vector<double>>;  // seconds of ops, round after round

struct Rehearsed {
  int layers = 0;
  Rounds rounds;
};

template <typename T>
Result<Rehearsed> run_rounds(Rank<T>& rank) {
  Rehearsed done;
  const int tried = std::min(2, layers_of(rank.program));
  kernel::settle_gemm(true);
  Result<std::vector<double>> round = run_round(rank, tried);
  if (round) round = run_round(rank, tried);  // a product that adds up is another one than the first
  kernel::settle_gemm(false);
  if (round) round = run_round(rank, tried);
  if (!round) return tl::unexpected(round.error());
  const Result<int> layers = layers_for(rank, tried, *round);
  if (!layers) return tl::unexpected(layers.error());
  done.layers = *layers;
  if (*layers > tried) round = run_round(rank, *layers);  // touches their memory
  double spent = 0;
  for (int i = 0; i < kMostRounds && spent < kSeconds; ++i) {
    round = run_round(rank, *layers);
    if (!round) return tl::unexpected(round.error());
    const Result<double> seconds = largest_of_ranks(rank, sum_of(*round));
    if (!seconds) return tl::unexpected(seconds.error());
    spent += *seconds;
    done.rounds.push_back(std::move(*round));
  }
  return done;
}

// ---- what all ranks found

// Of every rank, round after round, on all ranks.
template <typename T>
Result<std::vector<Rounds>> gather_rounds(Rank<T>& rank, const Rounds& own) {
  const Result<double> most = largest_of_ranks(rank, static_cast<double>(own.front().size()));
  if (!most) return tl::unexpected(most.error());
  const auto width = static_cast<std::size_t>(*most);
  std::vector<double> mine;
  for (const std::vector<double>& round : own) {
    mine.insert(mine.end(), round.begin(), round.end());
    mine.resize(mine.size() + width - round.size());
  }
  const auto ranks = static_cast<std::size_t>(comm::size_of(rank.world));
  std::vector<double> all(mine.size() * ranks);
  if (ranks == 1) all = mine;
  if (ranks > 1) {
    const comm::Call call{.verb = comm::Verb::all_gather,
                          .input = mine.data(),
                          .output = all.data(),
                          .count = mine.size(),
                          .type = comm::ElementType::f64};
    if (Result<void> done = comm::run(rank.world, call); !done) return tl::unexpected(done.error());
  }
  std::vector<Rounds> rounds(ranks, Rounds(own.size()));
  auto next = all.begin();
  for (Rounds& of_rank : rounds) {
    for (std::vector<double>& round : of_rank) {
      round.assign(next, next + static_cast<std::ptrdiff_t>(width));
      next += static_cast<std::ptrdiff_t>(width);
    }
  }
  return rounds;
}

// A round of a stage: tensor-parallel ranks wait for each other behind every op, copies of the model for the slowest of
// them behind the pass.
std::vector<double> slowest_copy(const Program& program, const std::vector<Rounds>& all, int kind, std::size_t round) {
  std::map<int, std::vector<double>> copies;
  for (int rank = 0; rank < static_cast<int>(all.size()); ++rank) {
    if (program::kind_of_rank(program, rank) != kind) continue;
    const std::vector<double>& own = all[at(rank)][round];
    std::vector<double>& copy = copies[layout::coordinate(program.mesh, rank, layout::Axis::dp)];
    copy.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) copy[i] = std::max(copy[i], own[i]);
  }
  const auto slowest = std::ranges::max_element(
      copies, [](const auto& a, const auto& b) { return sum_of(a.second) < sum_of(b.second); });
  return slowest->second;
}

// The mean of the middle half of the rounds, by what they took: what a machine that is shared does for a moment does
// not count, what it does all the time does.
std::vector<double> typical(Rounds rounds) {
  std::ranges::sort(rounds, [](const auto& a, const auto& b) { return sum_of(a) < sum_of(b); });
  const std::size_t first = rounds.size() / 4;
  const std::size_t last = rounds.size() - first;
  std::vector<double> mean(rounds.front().size());
  for (std::size_t r = first; r < last; ++r) {
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += rounds[r][i] / static_cast<double>(last - first);
  }
  return mean;
}

// What ops of different layers have in common that take as long.
using Likeness = std::tuple<OpKind, Phase, program::Segment, program::Lane, collective::Verb, layout::Group, int>;

Likeness likeness_of(const Op& op) { return {op.kind, op.phase, op.segment, op.lane, op.verb, op.group, op.work}; }

struct Mean {
  double sum = 0;
  int count = 0;
};

// What runs beside the passes is not known, for nobody waits for it here.
bool is_timed(const Op& op) {
  const bool beside = op.lane == program::Lane::data && op.phase != Phase::update;
  return !beside && (op.kind == OpKind::compute || op.kind == OpKind::collective);
}

void add_stage(const Program& program, const Kind& kind, const std::vector<const Op*>& ops,
               const std::vector<double>& seconds, std::vector<std::vector<Mean>>& sums) {
  std::map<Likeness, Mean> means;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!is_timed(*ops[i])) continue;
    Mean& mean = means[likeness_of(*ops[i])];
    mean.sum += seconds[i];
    ++mean.count;
  }
  std::vector<bool> seen(program.blocks.size());
  for (const Instance& one : kind.instances) {
    if (seen[at(one.block)]) continue;
    seen[at(one.block)] = true;
    const std::vector<Op>& all = program.blocks[at(one.block)].ops;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto found = means.find(likeness_of(all[i]));
      if (found == means.end()) continue;
      Mean& sum = sums[at(one.block)][i];
      sum.sum += found->second.sum / found->second.count;
      ++sum.count;
    }
  }
}

OpSeconds seconds_of(const Program& program, const std::vector<Rounds>& all, int layers) {
  std::vector<std::vector<Mean>> sums;
  for (const Block& block : program.blocks) sums.emplace_back(block.ops.size());
  for (int k = 0; k < static_cast<int>(program.kinds.size()); ++k) {
    const Kind& kind = program.kinds[at(k)];
    Rounds rounds;
    for (std::size_t r = 0; r < all.front().size(); ++r) rounds.push_back(slowest_copy(program, all, k, r));
    add_stage(program, kind, ops_of(program, kind, layers), typical(std::move(rounds)), sums);
  }
  OpSeconds seconds;
  for (const std::vector<Mean>& block : sums) {
    seconds.emplace_back();
    for (const Mean& one : block) seconds.back().push_back(one.count > 0 ? one.sum / one.count : -1);
  }
  return seconds;
}

}  // namespace

template <typename T>
Result<OpSeconds> rehearse(Rank<T>& rank) {
  rank.rehearses = true;
  rank.settings = {};
  rank.settings.sgd = rank.job.training.optimizer != spec::Optimizer::adam;
  rank.settings.adamw.rate = rank.settings.momentum.rate = 0;
  if (rank.job.training.optimizer == spec::Optimizer::sgd) rank.settings.momentum.momentum = 0;
  rank.settings.record = true;
  fill(rank);
  const Result<Rehearsed> done = run_rounds(rank);
  rank.rehearses = false;
  begin_step(rank);
  if (!done) return tl::unexpected(done.error());
  const Result<std::vector<Rounds>> all = gather_rounds(rank, done->rounds);
  if (!all) return tl::unexpected(all.error());
  return seconds_of(rank.program, *all, done->layers);
}

template Result<OpSeconds> rehearse(Rank<float>&);
template Result<OpSeconds> rehearse(Rank<double>&);
template Result<OpSeconds> rehearse(Rank<Bf16>&);

}  // namespace twinpod::train
