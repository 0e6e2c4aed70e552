// Real training with servers in processes of their own.
#include "train/served.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <sstream>

#include "core/hash.hpp"
#include "train/rate.hpp"
#include "train/test_job.hpp"

namespace twinpod::train {
namespace {

constexpr int kSteps = 8;

// What processes tell the test.
struct Told {
  std::atomic<int> steps = 0;
  std::array<std::uint64_t, kSteps> hashes = {};       // of the parameters, before each step; of worker 0
  std::array<std::array<double, 256>, 4> losses = {};  // of each worker in each step
};

struct SharedPage {
  SharedPage() : page(mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    told = new (page) Told;
  }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;
  ~SharedPage() { munmap(page, sizeof(Told)); }
  void* page;
  Told* told = nullptr;
};

std::uint64_t hash_of(const Rank<float>& rank, const ServedTensors& tensors) {
  std::uint64_t hash = kFnvOffset;
  for (std::size_t i = 0; i < tensors.counts.size(); ++i) {
    const auto* const first = reinterpret_cast<const char*>(rank.parameters + tensors.offsets[i]);
    hash = fnv1a({first, static_cast<std::size_t>(tensors.counts[i]) * sizeof(float)}, hash);
  }
  return hash;
}

// The sample of the global batch that a data-parallel rank would have there.
Result<void> read_share(Rank<float>& rank, int worker, int workers, std::int64_t step) {
  const std::int64_t sequence = rank.job.training.sequence;
  const int each = rank.job.layout.micro_batch;
  std::size_t place = 0;
  for (int m = 0; m < rank.program.micro_batches; ++m) {
    for (int b = 0; b < each; ++b) {
      const int sample = (m * workers + worker) * each + b;
      Rng rng(static_cast<std::uint64_t>(step * 1000 + sample));
      int token = static_cast<int>(rng.next() % 61);
      for (std::int64_t s = 0; s < sequence; ++s, ++place) {
        rank.tokens[place] = token;
        token = (token * 7 + static_cast<int>(rng.next() % 3)) % 61;
        rank.labels[place] = token;
      }
    }
  }
  return {};
}

spec::Job recipe_job() {
  spec::Job job = small_job();
  job.training.recipe.seed = 7;
  job.training.recipe.learning_rate = 3e-3;
  job.training.recipe.weight_decay = 0.1;
  job.training.recipe.clip = 0;
  return job;
}

// The mean of the workers' losses in each step.
std::vector<double> mean_losses(const Told& told, int workers, std::int64_t steps) {
  std::vector<double> means;
  for (std::size_t step = 0; step < static_cast<std::size_t>(steps); ++step) {
    double sum = 0;
    for (std::size_t worker = 0; worker < static_cast<std::size_t>(workers); ++worker) sum += told.losses[worker][step];
    means.push_back(sum / workers);
  }
  return means;
}

struct Served {
  std::vector<double> losses;
  ps::LaunchReport report;
};

ps::Choice choice_of(int servers, int workers, int copies, const char* mode) {
  ps::Choice choice{.servers = servers, .workers = workers, .copies = copies, .mode = mode};
  choice.settings = *ps::parse_mode(mode);
  return choice;
}

Served train_with_servers(spec::Job job, const ps::Choice& choice, std::int64_t steps, Told& told,
                          const ps::Watch& watch = {}) {
  const FirstWays same_ways;
  job.training.global_batch /= choice.workers;
  job.stack.memory.runtime_bytes = static_cast<double>(runtime_bytes<float>(job));
  const Result<program::Program> program = program::generate(job);
  if (!program) {
    ADD_FAILURE() << program.error().message;
    return {};
  }
  const double tokens = job.training.global_batch * job.training.sequence;
  job.training.global_batch *= divided_by(choice);
  const ServedTensors tensors = served_tensors(job, *program, choice.workers);
  ps::LaunchOptions options = served_options(job, tensors, choice);
  options.client.tick_s = 0.02;
  const Result<ps::LaunchReport> report = ps::launch(
      options,
      [&](ps::Client& client) {
        kernel::set_threads(1);
        ServedRun<float> run{job, *program, tensors, choice, steps};
        run.read = [&](Rank<float>& rank, int worker, std::int64_t step) {
          if (worker == 0 && step < kSteps) told.hashes[static_cast<std::size_t>(step)] = hash_of(rank, tensors);
          return read_share(rank, worker, choice.workers, step);
        };
        run.note = [&](const ServedStep& step) {
          told.losses[static_cast<std::size_t>(step.worker)][static_cast<std::size_t>(step.step)] =
              step.loss_sum / tokens;
          ++told.steps;
        };
        return train_served<float>(run, client);
      },
      watch);
  if (!report) {
    ADD_FAILURE() << to_string(report.error());
    return {};
  }
  return {mean_losses(told, choice.workers, steps), *report};
}

// As the loop does it: all-reduce between ranks, and the optimizer on each.
std::vector<std::uint64_t> train_with_all_reduce(spec::Job job, int ranks) {
  const FirstWays same_ways;
  job.cluster.devices = ranks;
  job.stack.memory.runtime_bytes = static_cast<double>(runtime_bytes<float>(job));
  const Result<program::Program> program = program::generate(job);
  const ServedTensors tensors = served_tensors(job, *program);
  std::vector<std::uint64_t> hashes;
  const spec::Recipe& recipe = job.training.recipe;
  const Result<std::string> done = comm::run_threads(ranks, {.timeout_s = 20}, [&](comm::Communicator& world) {
    kernel::set_threads(1);
    Rank<float> rank(job, *program, world);
    Result<std::string> answer = std::string();
    if (Result<void> ready = set_up(rank, 7); !ready) answer = tl::unexpected(ready.error());
    for (int step = 0; step < kSteps && answer; ++step) {
      if (rank.rank == 0) hashes.push_back(hash_of(rank, tensors));
      fill_batch(rank, step);
      StepSettings settings;
      settings.clip = recipe.clip;
      settings.adamw = {
          rate_at(recipe, step, kSteps), recipe.beta1, recipe.beta2, recipe.epsilon, recipe.weight_decay, 1, step + 1};
      const Result<StepResult> one = run_step(rank, settings);
      if (!one) answer = tl::unexpected(one.error());
    }
    return answer;
  });
  EXPECT_TRUE(done) << done.error().message;
  return hashes;
}

// Parameters before each step. Three is no power of two: a mean is rounded differently unless it is taken in the same
// way. Norms are of the order of 1: the clip of 0.3 scales in each step.
TEST(TrainServed, SyncIsBitForBitTheAllReduceTrainer) {
  struct Case {
    int workers;
    double clip;
  };
  for (const Case& one : {Case{3, 0}, Case{1, 0.3}, Case{2, 0.3}, Case{3, 0.3}, Case{4, 0.3}}) {
    const SharedPage page;
    spec::Job job = recipe_job();
    job.training.recipe.clip = one.clip;
    job.training.global_batch = one.workers == 3 ? 12 : job.training.global_batch;
    train_with_servers(job, choice_of(2, one.workers, 2, "sync"), kSteps, *page.told);
    const std::vector<std::uint64_t> reduced = train_with_all_reduce(job, one.workers);
    ASSERT_EQ(reduced.size(), page.told->hashes.size());
    EXPECT_NE(reduced[0], reduced[1]);
    for (std::size_t step = 0; step < reduced.size(); ++step) {
      EXPECT_EQ(page.told->hashes[step], reduced[step]) << one.workers << " workers, step " << step;
    }
    if (one.clip == 0) continue;
    job.training.recipe.clip = 0;
    EXPECT_NE(reduced.back(), train_with_all_reduce(job, one.workers).back()) << "nothing was clipped";
  }
}

TEST(TrainServed, LearnsInEveryMode) {
  struct Case {
    const char* mode;
    int local_steps;
    const char* compress;
  };
  for (const Case& one :
       {Case{"async", 1, "none"}, Case{"ssp:2", 1, "fp16"}, Case{"sync", 3, "none"}, Case{"async", 3, "top-k:0.1"}}) {
    const SharedPage page;
    ps::Choice choice = choice_of(1, 2, 1, one.mode);
    choice.local_steps = one.local_steps;
    choice.compression = *ps::parse_compression(one.compress);
    const Served served = train_with_servers(recipe_job(), choice, 30, *page.told);
    ASSERT_EQ(served.losses.size(), 30U);
    EXPECT_LT(served.losses.back(), served.losses.front() - 0.3) << one.mode << " " << one.local_steps;
  }
}

// A server and a worker are killed on the way; the workers come to their end, and the loss to about the same.
TEST(TrainServed, GoesOnWhenProcessesDie) {
  const SharedPage page;
  const SharedPage calm_page;
  int kills = 0;
  const auto watch = [&](const std::vector<ps::Process>& processes) {
    if (kills == 2 || page.told->steps < 60 * (kills + 1)) return;
    const ps::Role role = kills == 0 ? ps::Role::server : ps::Role::worker;
    const auto victim =
        std::find_if(processes.begin(), processes.end(), [&](const ps::Process& one) { return one.role == role; });
    if (victim == processes.end()) return;
    kill(victim->pid, SIGKILL);
    ++kills;
  };
  const ps::Choice choice = choice_of(2, 2, 2, "ssp:1");
  const Served calm = train_with_servers(recipe_job(), choice, 150, *calm_page.told);
  const Served rough = train_with_servers(recipe_job(), choice, 150, *page.told, watch);
  EXPECT_EQ(rough.report.deaths, 2);
  ASSERT_FALSE(rough.losses.empty());
  EXPECT_NEAR(rough.losses.back(), calm.losses.back(), 0.4);
}

}  // namespace
}  // namespace twinpod::train
