// Whole training steps, in turn with the fastest matrix product that this machine is known to do.
//
//     train_step_bench                                    # shapes A and B: on one core, and on two as copies
//     train_step_bench --shape A --where                  # and where the time of a step goes
//     train_step_bench job.yaml --on here.yaml --set layout.tp=2 --steps 20 --json
//
// A rate counts 6 P + 12 L H S operations for each token (P: all parameters, L: layers, H: hidden, S: sequence). It is
// compared with the best sgemm of several shapes, as vectors compute it (products in tiles, which steps may use, are
// faster than that: a share may be above 1); best with best, both measured in the same seconds, because neighbours on
// the machine slow down both. Times are those of the slowest rank.
#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "core/rng.hpp"
#include "kernel/gemm.hpp"
#include "kernel/processor.hpp"
#include "kernel/product.hpp"
#include "model/arithmetic.hpp"
#include "program/generate.hpp"
#include "spec/read.hpp"
#include "train/rank.hpp"

namespace twinpod::train {
namespace {

struct Request {
  std::vector<std::string> shapes;  // of this file's; empty: a job file
  spec::Request job;
  int steps = 8;
  int rounds = 2;
  int threads = 1;
  bool peak = true;
  bool where = false;
  bool json = false;
};

// Seconds of a step, by segment and phase, of rank 0: of each op the shortest time that it took in any step.
using Where = std::map<std::string, double>;

struct Measured {
  double best_s = INFINITY;
  double median_s = 0;
  double peak_flop_per_s = 0;  // the best product in the same seconds
  double memory_bytes = 0;     // most of rank 0
  Where where;

  // A step of which no op is disturbed; not of a pipeline, whose ops wait for each other.
  double undisturbed_s() const {
    double sum = 0;
    for (const auto& [name, seconds] : where) sum += seconds;
    return sum;
  }
};

// ---- the fastest product ----

struct Matrices {
  std::vector<float> a, b, c;
};

constexpr std::array<std::array<int, 3>, 9> kPeakShapes = {{{1024, 1024, 1024},
                                                            {1536, 1536, 1536},
                                                            {2048, 2048, 2048},
                                                            {3072, 3072, 384},
                                                            {3072, 3072, 768},
                                                            {2048, 1536, 384},
                                                            {2048, 1152, 384},
                                                            {1024, 3072, 768},
                                                            {4096, 1024, 512}}};

double now_s() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

double rate_of(const std::array<int, 3>& shape, bool transposed, Matrices& of) {
  const auto [m, n, k] = shape;
  of.a.resize(std::max(of.a.size(), std::size_t(m) * std::size_t(k)), 0.5F);
  of.b.resize(std::max(of.b.size(), std::size_t(n) * std::size_t(k)), 0.5F);
  of.c.resize(std::max(of.c.size(), std::size_t(m) * std::size_t(n)), 0.5F);
  const double start = now_s();
  kernel::gemm<float>({.m = m, .n = n, .k = k, .transpose_b = transposed}, of.a.data(), of.b.data(), of.c.data());
  return 2.0 * m * n * k / (now_s() - start);
}

// Looks at all shapes at first, and then again and again at those that came near the best.
struct Peak {
  Matrices matrices;
  std::array<double, 2 * kPeakShapes.size()> rates{};
  double best = 0;

  void look(bool all) {
    constexpr double kNear = 0.96;
    const kernel::Instructions instructions = kernel::instructions();
    kernel::use_instructions(std::min(instructions, kernel::Instructions::avx512));
    const double least = all ? 0 : kNear * best;
    for (std::size_t i = 0; i < rates.size(); ++i) {
      if (rates[i] < least) continue;
      for (int again = 0; again < 3; ++again)
        rates[i] = std::max(rates[i], rate_of(kPeakShapes[i / 2], i % 2 == 1, matrices));
      best = std::max(best, rates[i]);
    }
    kernel::use_instructions(instructions);
  }
};

// ---- steps ----

template <typename T>
void fill_batch(Rank<T>& rank) {
  Rng rng(static_cast<std::uint64_t>(rank.dp_rank) + 1);
  const auto vocab = static_cast<std::uint64_t>(rank.job.model.vocab);
  for (std::size_t i = 0; i < rank.tokens.size(); ++i) {
    rank.tokens[i] = static_cast<std::int32_t>(rng.next() % vocab);
    rank.labels[i] = static_cast<std::int32_t>(rng.next() % vocab);
  }
}

Result<double> slowest(comm::Communicator& world, double seconds) {
  if (comm::size_of(world) == 1) return seconds;
  const comm::Call call{.verb = comm::Verb::all_reduce,
                        .input = &seconds,
                        .output = &seconds,
                        .count = 1,
                        .type = comm::ElementType::f64,
                        .op = comm::ReduceOp::max};
  if (Result<void> done = comm::run(world, call); !done) return tl::unexpected(done.error());
  return seconds;
}

// The shortest that each op of the list took. A neighbour on the machine seldom disturbs the same op in every step.
struct Shortest {
  std::vector<double> ops;
  double between = INFINITY;  // what no op explains

  void add(const program::RankTimeline& timeline, double step_s) {
    ops.resize(timeline.ops.size(), INFINITY);
    double sum = 0;
    for (std::size_t i = 0; i < ops.size(); ++i) {
      const double seconds = timeline.ops[i].end_s - timeline.ops[i].start_s;
      ops[i] = std::min(ops[i], seconds);
      sum += seconds;
    }
    between = std::min(between, step_s - sum);
  }
};

template <typename T>
Where where_of(const Rank<T>& rank, const Shortest& shortest) {
  Where where;
  std::size_t i = 0;
  program::for_each_op(rank.program, rank.kind, [&](const program::PlacedOp& op) {
    const std::string what = op.op->kind == program::OpKind::compute
                                 ? std::string(name_of(op.op->segment))
                                 : fmt::format("{} {}", name_of(op.op->lane), name_of(op.op->kind));
    where[fmt::format("{} {}", what, name_of(op.op->phase))] += shortest.ops[i++];
  });
  where["between ops"] = shortest.between;
  return where;
}

// best, median, peak, memory, then name and seconds of each part, a line each.
std::string answer_of(std::vector<double> steps, const Peak& peak, std::int64_t memory_bytes, const Where& where) {
  std::sort(steps.begin(), steps.end());
  std::string text = fmt::format("{} {} {} {}\n", steps.front(), steps[steps.size() / 2], peak.best, memory_bytes);
  for (const auto& [name, seconds] : where) text += fmt::format("{} {}\n", seconds, name);
  return text;
}

template <typename T>
Result<std::string> run_rank(const Request& request, const spec::Job& job, const program::Program& program,
                             comm::Communicator& world) {
  kernel::flush_denormals();
  kernel::set_threads(request.threads);
  Rank<T> rank(job, program, world);
  if (Result<void> ready = set_up(rank, 1); !ready) return tl::unexpected(ready.error());
  fill_batch(rank);
  Peak peak;
  std::vector<double> steps;
  Shortest shortest;
  constexpr int kWarmUp = 2;  // memory is touched, and the fastest products are found
  for (int step = 0; step < kWarmUp + request.steps; ++step) {
    if (request.peak) {
      peak.look(step == kWarmUp);
      // Ranks do not look at as many products: who is through first must not wait for the other within its step.
      if (Result<double> met = slowest(world, 0); !met) return tl::unexpected(met.error());
    }
    StepSettings settings;
    settings.adamw = {.rate = 1e-4, .decay = 0.1, .step = step + 1};
    settings.clip = 1;
    settings.record = request.where;
    const Result<StepResult> done = run_step(rank, settings);
    if (!done) return tl::unexpected(done.error());
    const Result<double> seconds = slowest(world, done->seconds);
    if (!seconds) return tl::unexpected(seconds.error());
    if (step < kWarmUp) continue;
    if (request.where) shortest.add(rank.timeline, done->seconds);
    steps.push_back(*seconds);
  }
  return answer_of(steps, peak, rank.memory.peak_bytes(), request.where ? where_of(rank, shortest) : Where{});
}

void keep_to_one_core() {
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(0, &own);
  sched_setaffinity(0, sizeof own, &own);
}

Measured read_answer(const std::string& text) {
  Measured measured;
  std::istringstream in(text);
  in >> measured.best_s >> measured.median_s >> measured.peak_flop_per_s >> measured.memory_bytes;
  double seconds = 0;
  std::string name;
  while (in >> seconds && std::getline(in >> std::ws, name)) measured.where[name] = seconds;
  return measured;
}

Result<Measured> measure(const Request& request, spec::Job job) {
  const bool half = job.training.precision == spec::Precision::bf16;
  job.stack.memory.runtime_bytes = static_cast<double>(half ? runtime_bytes<Bf16>(job) : runtime_bytes<float>(job));
  const Result<program::Program> program = program::generate(job);
  if (!program) return tl::unexpected(program.error());
  const Result<std::string> text = comm::run_processes(
      job.cluster.devices, {.timeout_s = 120}, [&](comm::Communicator& world) -> Result<std::string> {
        if (job.cluster.devices == 1 && request.threads == 1) keep_to_one_core();
        return half ? run_rank<Bf16>(request, job, *program, world) : run_rank<float>(request, job, *program, world);
      });
  if (!text) return tl::unexpected(text.error());
  return read_answer(*text);
}

void keep_best(Measured& best, const Measured& other) {
  best.median_s = other.best_s < best.best_s ? other.median_s : best.median_s;
  best.best_s = std::min(best.best_s, other.best_s);
  best.peak_flop_per_s = std::max(best.peak_flop_per_s, other.peak_flop_per_s);
  best.memory_bytes = std::max(best.memory_bytes, other.memory_bytes);
  for (const auto& [name, seconds] : other.where) {
    const auto known = best.where.try_emplace(name, seconds).first;
    known->second = std::min(known->second, seconds);
  }
}

// ---- jobs ----

constexpr const char* kJobText = R"(
model: {{layers: {0}, hidden: {1}, ffn: {2}, vocab: {3}, max_sequence: {4}, gated_mlp: false, mlp_bias: true,
        attention: {{heads: {5}, kv_heads: {5}, head_dim: 64, bias: true}}, norm: layer_norm, positions: learned,
        tied_embeddings: true}}
cluster:
  device: {{name: a core, family: cpu, peak: {{fp32: 100 GFLOP/s}}, memory: 32 GB, memory_bandwidth: 10 GB/s}}
  node: {{devices: 64, scale_up: {{kind: switched, bandwidth: 10 GB/s}}}}
  devices: 64
devices: {6}
stack: twinpod
layout: {{micro_batch: {7}}}
training: {{global_batch: {8}, sequence: {4}, precision: fp32, optimizer: adam}}
)";

std::string shape_text(const std::string& name, int copies) {
  if (name == "A") return fmt::format(kJobText, 6, 384, 1536, 4096, 256, 6, copies, 8, 8 * copies);
  return fmt::format(kJobText, 12, 768, 3072, 50304, 512, 12, copies, 2, 2 * copies);
}

double tokens_of(const spec::Job& job) { return job.training.global_batch * job.training.sequence; }

double flop_of(const spec::Job& job) {
  const double attention = 12.0 * job.model.layers * job.model.hidden * job.training.sequence;
  return tokens_of(job) * (6 * model::parameters(job.model).total + attention);
}

// ---- what is printed ----

struct Row {
  std::string name;
  spec::Job job;
  Measured measured;
  double scale = 0;  // 0: not asked
};

void print_json(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows) {
    const double rate = flop_of(row.job) / row.measured.best_s;
    std::string where;
    for (const auto& [name, seconds] : row.measured.where)
      where += fmt::format("{}\"{}\": {:.6g}", where.empty() ? "" : ", ", name, seconds);
    text += fmt::format(
        "{}{{\"name\": \"{}\", \"ranks\": {}, \"step_time_s\": {:.6g}, \"median_step_time_s\": {:.6g}, "
        "\"tokens_per_s\": {:.6g}, \"peak_memory_bytes\": {:.0f}, \"flop_per_s\": {:.6g}, \"peak_flop_per_s\": {:.6g}, "
        "\"scale_factor\": {:.4g}, "
        "\"undisturbed_step_time_s\": {:.6g}, \"where_s\": {{{}}}}}",
        text.empty() ? "" : ", ", row.name, row.job.cluster.devices, row.measured.best_s, row.measured.median_s,
        tokens_of(row.job) / row.measured.best_s, row.measured.memory_bytes, rate, row.measured.peak_flop_per_s,
        row.scale, row.measured.undisturbed_s(), where);
  }
  fmt::print("{{\"rows\": [{}]}}\n", text);
}

void print_table(const std::vector<Row>& rows) {
  fmt::print("{:<22}{:>6}{:>10}{:>10}{:>12}{:>12}{:>10}{:>8}{:>8}\n", "job", "ranks", "best s", "median s", "tokens/s",
             "GFLOP/s", "sgemm", "share", "scale");
  for (const Row& row : rows) {
    const double rate = flop_of(row.job) / row.measured.best_s / row.job.cluster.devices;
    const double peak = row.measured.peak_flop_per_s;
    fmt::print("{:<22}{:>6}{:>10.4f}{:>10.4f}{:>12.0f}{:>12.1f}{:>10.1f}{:>8.3f}{:>8}\n", row.name,
               row.job.cluster.devices, row.measured.best_s, row.measured.median_s,
               tokens_of(row.job) / row.measured.best_s, 1e-9 * rate, 1e-9 * peak, peak > 0 ? rate / peak : 0,
               row.scale > 0 ? fmt::format("{:.3f}", row.scale) : "");
    for (const auto& [name, seconds] : row.measured.where)
      fmt::print("    {:<36}{:>10.2f} ms{:>8.1f} %\n", name, 1e3 * seconds,
                 100 * seconds / row.measured.undisturbed_s());
    if (!row.measured.where.empty())
      fmt::print("    {:<36}{:>10.2f} ms, {:.1f} GFLOP/s\n", "together", 1e3 * row.measured.undisturbed_s(),
                 1e-9 * flop_of(row.job) / row.job.cluster.devices / row.measured.undisturbed_s());
  }
}

// One rank and two copies, in turn.
Result<void> add_shape(const Request& request, const std::string& name, std::vector<Row>& rows) {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  std::vector<Row> own;
  for (const int copies : {1, 2}) {
    const Result<spec::Job> job = spec::read_job_text(shape_text(name, copies), name, catalog);
    if (!job) return tl::unexpected(job.error());
    own.push_back({name, *job, {}, 0});
  }
  for (int round = 0; round < request.rounds; ++round) {
    for (Row& row : own) {
      const Result<Measured> measured = measure(request, row.job);
      if (!measured) return tl::unexpected(measured.error());
      keep_best(row.measured, *measured);
    }
  }
  own[1].scale = own[0].measured.best_s / own[1].measured.best_s;
  rows.insert(rows.end(), own.begin(), own.end());
  return {};
}

Result<void> add_job(const Request& request, std::vector<Row>& rows) {
  const Result<spec::Job> job = spec::read_job(request.job, spec::Catalog(TWINPOD_CATALOG_DIR));
  if (!job) return tl::unexpected(job.error());
  if (!job->stack.executed) return input_error("only jobs with `stack: twinpod` are trained here");
  const Result<Measured> measured = measure(request, *job);
  if (!measured) return tl::unexpected(measured.error());
  rows.push_back({job->name, *job, *measured, 0});
  return {};
}

std::optional<Request> request_of(const std::vector<std::string>& words) {
  Request request;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto value = [&] { return i + 1 < words.size() ? words[++i] : std::string(); };
    const auto number = [&] { return std::max(1, std::atoi(value().c_str())); };
    if (word == "--json") {
      request.json = true;
    } else if (word == "--where") {
      request.where = true;
    } else if (word == "--no-peak") {
      request.peak = false;
    } else if (word == "--shape") {
      request.shapes.push_back(value());
    } else if (word == "--steps") {
      request.steps = number();
    } else if (word == "--rounds") {
      request.rounds = number();
    } else if (word == "--threads") {
      request.threads = number();
    } else if (word == "--on") {
      request.job.cluster = value();
    } else if (word == "--set") {
      request.job.sets.emplace_back(value());
    } else if (word.starts_with('-') || !request.job.file.empty()) {
      return {};
    } else {
      request.job.file = word;
    }
  }
  if (request.job.file.empty() && request.shapes.empty()) request.shapes = {"A", "B"};
  const bool known = std::all_of(request.shapes.begin(), request.shapes.end(),
                                 [](const std::string& shape) { return shape == "A" || shape == "B"; });
  return known ? std::optional(request) : std::nullopt;
}

int main_of(const std::vector<std::string>& words) {
  const std::optional<Request> request = request_of(words);
  if (!request) {
    fmt::print(stderr,
               "usage: train_step_bench [JOB.yaml [--on CLUSTER] [--set KEY=VALUE]] [--shape A|B] [--steps N] "
               "[--rounds N] [--threads N] [--no-peak] [--where] [--json]\n");
    return 2;
  }
  std::vector<Row> rows;
  Result<void> done;
  if (!request->job.file.empty()) done = add_job(*request, rows);
  for (const std::string& shape : request->shapes) {
    if (done) done = add_shape(*request, shape, rows);
  }
  if (!done) {
    fmt::print(stderr, "{}\n", to_string(done.error()));
    return done.error().kind == ErrorKind::input ? 2 : 1;
  }
  request->json ? print_json(rows) : print_table(rows);
  return 0;
}

}  // namespace
}  // namespace twinpod::train

int main(int argc, char** argv) { return twinpod::train::main_of({argv + 1, argv + argc}); }
