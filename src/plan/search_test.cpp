#include "plan/search.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "core/rng.hpp"
#include "layout/check.hpp"
#include "plan/estimate.hpp"
#include "plan/fits.hpp"
#include "plan/memory.hpp"
#include "plan/test_job.hpp"

namespace twinpod::plan {
namespace {

using spec::Recompute;
using spec::Schedule;

// Sanitizers make brute force twenty times as slow; what they look for shows in a few problems.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TWINPOD_SANITIZED
#endif
#endif
#ifdef TWINPOD_SANITIZED
constexpr int kProblems = 50;
constexpr int kOpenProblems = 1;
#else
constexpr int kProblems = 1000;
constexpr int kOpenProblems = 12;
#endif

// A problem that brute force can afford: every axis has one to three values.
struct Problem {
  spec::Job job;
  Wishes wishes;
};

template <typename T>
std::vector<T> some_of(const std::vector<T>& values, Rng& rng) {
  std::vector<T> some;
  for (const T& value : values) {
    if (once_in(rng, 2)) some.push_back(value);
  }
  if (some.empty()) some.push_back(values[static_cast<std::size_t>(rng.below(values.size()))]);
  if (some.size() > 3) some.resize(3);
  return some;
}

Problem random_problem(Rng& rng) {
  Problem problem;
  spec::Job& job = problem.job;
  job = gpt_job(4 << rng.below(4));
  randomise_model(rng, job.model);
  job.model.layers = one_of(std::array{6, 8, 10, 16, 24}, rng);
  randomise_stack(rng, job.stack);
  job.training.sequence = 2048;
  job.training.global_batch = one_of(std::array{16, 24, 64, 96}, rng);
  job.cluster.device.memory_bytes = rng.uniform(4e9, 90e9);
  job.cluster.host_memory_bytes = once_in(rng, 3) ? rng.uniform(1e9, 500e9) : 0;
  Wishes& w = problem.wishes;
  w.tp = some_of<int>({1, 2, 4, 8, 16}, rng);
  w.pp = some_of<int>({1, 2, 3, 4, 8}, rng);
  w.cp = some_of<int>({1, 1, 2, 4}, rng);
  w.ep = job.model.experts.count > 0 ? some_of<int>({1, 2, 4}, rng) : std::vector<int>{1};
  w.etp = some_of<int>({0, 1}, rng);
  w.virtual_stages = some_of<int>({1, 2, 3}, rng);
  w.micro_batch = some_of<int>({1, 2, 3, 4}, rng);
  w.zero = some_of<int>({0, 1, 2, 3}, rng);
  w.servers = some_of<int>({0, 0, 1}, rng);
  w.sequence_parallel = some_of<int>({0, 1}, rng);
  w.offload_optimizer = some_of<int>({0, 0, 1}, rng);
  w.offload_activations = some_of<int>({0, 0, 1}, rng);
  w.recompute = some_of<Recompute>({Recompute::none, Recompute::selective, Recompute::full}, rng);
  w.schedule = some_of<Schedule>({Schedule::one_f_one_b, Schedule::gpipe, Schedule::interleaved, Schedule::zb_1p,
                                  Schedule::zb_2p, Schedule::zb_v, Schedule::dualpipe},
                                 rng);
  return problem;
}

bool before(const Candidate& a, const Candidate& b) { return is_better(Objective::time, a, b); }

// All that brute force found, one of each. Written without the search: every product of wished values goes through the
// one validity check, the estimate and the memory of any other job.
using Points = std::set<Candidate, decltype(&before)>;

void try_one(spec::Job& job, Points& points) {
  if (!layout::check(job)) return;
  spec::Job plain = job;
  plain.layout = canonical(job);
  const MemoryUse use = peak_memory(plain);
  if (!fits(plain, use)) return;
  points.insert({plain.layout, plain.cluster.devices, step_time(plain).total_s, use.total()});
}

// Calls next(job) with each of the values set.
template <typename T, typename Set, typename Next>
void with_each(spec::Job& job, const std::vector<T>& values, const Set& set, const Next& next) {
  const spec::Layout saved = job.layout;
  for (const T& value : values) {
    set(job.layout, value);
    next();
    job.layout = saved;
  }
}

void try_keepings(spec::Job& job, const Wishes& w, Points& points) {
  using spec::Layout;
  with_each(
      job, w.zero, [](Layout& l, int v) { l.zero = v; },
      [&] {
        with_each(
            job, w.servers, [](Layout& l, int v) { l.servers = v; },
            [&] {
              with_each(
                  job, w.offload_optimizer, [](Layout& l, int v) { l.offload_optimizer = v != 0; },
                  [&] {
                    with_each(
                        job, w.offload_activations, [](Layout& l, int v) { l.offload_activations = v != 0; },
                        [&] {
                          with_each(
                              job, w.recompute, [](Layout& l, Recompute v) { l.recompute = v; },
                              [&] { try_one(job, points); });
                        });
                  });
            });
      });
}

void try_pipelines(spec::Job& job, const Wishes& w, Points& points) {
  using spec::Layout;
  with_each(
      job, w.pp, [](Layout& l, int v) { l.pp = v; },
      [&] {
        std::vector<int> ends = {0};
        const int pp = job.layout.pp;
        if (pp > 1 && job.model.layers % pp != 0 && (job.model.layers + 2) % pp == 0) ends.push_back(1);
        with_each(
            job, ends, [](Layout& l, int v) { l.uneven_ends = v != 0; },
            [&] {
              with_each(
                  job, w.virtual_stages, [](Layout& l, int v) { l.virtual_stages = v; },
                  [&] {
                    with_each(
                        job, w.schedule, [](Layout& l, Schedule v) { l.schedule = v; },
                        [&] {
                          // Chunks under 1F1B are another name for interleaving.
                          if (job.layout.virtual_stages == 1 || job.layout.schedule == Schedule::interleaved)
                            try_keepings(job, w, points);
                        });
                  });
            });
      });
}

Points brute_force(const Problem& problem) {
  using spec::Layout;
  spec::Job job = problem.job;
  const Wishes& w = problem.wishes;
  Points points(&before);
  with_each(
      job, w.tp, [](Layout& l, int v) { l.tp = v; },
      [&] {
        with_each(
            job, w.cp, [](Layout& l, int v) { l.cp = v; },
            [&] {
              with_each(
                  job, w.ep, [](Layout& l, int v) { l.ep = v; },
                  [&] {
                    with_each(
                        job, w.etp, [](Layout& l, int v) { l.etp = v; },
                        [&] {
                          with_each(
                              job, w.micro_batch, [](Layout& l, int v) { l.micro_batch = v; },
                              [&] {
                                with_each(
                                    job, w.sequence_parallel, [](Layout& l, int v) { l.sequence_parallel = v != 0; },
                                    [&] { try_pipelines(job, w, points); });
                              });
                        });
                  });
            });
      });
  return points;
}

std::string text_of(const Candidate& c) {
  const spec::Layout& l = c.layout;
  return fmt::format(
      "tp {} pp {} v {} cp {} ep {} etp {} sp {} zero {} mbs {} recompute {} schedule {} servers {} "
      "offload {} {} ends {}: {} s",
      l.tp, l.pp, l.virtual_stages, l.cp, l.ep, l.etp, l.sequence_parallel, l.zero, l.micro_batch,
      static_cast<int>(l.recompute), static_cast<int>(l.schedule), l.servers, l.offload_optimizer,
      l.offload_activations, l.uneven_ends, c.step_time_s);
}

// The first `keep` of both are the same layouts with the same figures.
void expect_same(const std::vector<Candidate>& ranked, const Points& points, std::size_t keep, int problem) {
  ASSERT_EQ(ranked.size(), std::min(keep, points.size())) << "problem " << problem;
  auto expected = points.begin();
  for (const Candidate& found : ranked) {
    EXPECT_TRUE(is_same_layout(found, *expected))
        << "problem " << problem << "\nfound    " << text_of(found) << "\nexpected " << text_of(*expected);
    EXPECT_EQ(found.step_time_s, expected->step_time_s);
    EXPECT_EQ(found.memory_bytes, expected->memory_bytes);
    ++expected;
  }
}

// Whether there was anything to find.
bool agree(const Problem& problem, const Wishes& brute, int index, std::uint64_t& passed_over) {
  const Points points = brute_force({problem.job, brute});
  const Space space = space_of(problem.job, problem.wishes, all_abilities());
  const SearchResult all = search(space, {.keep = 5});
  const SearchResult bounded = search(space, {.keep = 1, .bounded = true});
  EXPECT_EQ(all.feasible, points.size()) << "problem " << index;
  expect_same(all.ranked, points, 5, index);
  expect_same(bounded.ranked, points, 1, index);
  passed_over += bounded.groups_passed_over;
  return !points.empty();
}

TEST(Search, FindsTheBruteForceOptimumOfAThousandProblems) {
  Rng rng(20261116);
  std::uint64_t passed_over = 0;
  int solved = 0;
  for (int i = 0; solved < kProblems && !HasFailure(); ++i) {
    const Problem problem = random_problem(rng);
    solved += agree(problem, problem.wishes, i, passed_over) ? 1 : 0;
  }
  EXPECT_GT(passed_over, static_cast<std::uint64_t>(kProblems));
}

TEST(Search, AnAxisLeftOpenTakesEveryValueThatWorks) {
  Rng rng(3);
  std::uint64_t passed_over = 0;
  for (int i = 0; i < kOpenProblems && !HasFailure(); ++i) {
    Problem problem = random_problem(rng);
    problem.job.cluster.devices = 8;
    Wishes brute = problem.wishes;
    const auto open = [](std::vector<int>& asked, std::vector<int>& values, int most) {
      asked.clear();
      values.clear();
      for (int value = 1; value <= most; ++value) values.push_back(value);
    };
    open(problem.wishes.tp, brute.tp, 16);
    open(problem.wishes.pp, brute.pp, 16);
    open(problem.wishes.virtual_stages, brute.virtual_stages, 12);
    open(problem.wishes.cp, brute.cp, 4);  // 2,048 tokens: 512 are left on each rank
    agree(problem, brute, i, passed_over);
  }
}

TEST(Search, TheJobsOwnLayoutIsInTheSpace) {
  Rng rng(7);
  int fitting = 0;
  for (int i = 0; i < 200; ++i) {
    const spec::Job job = random_job(rng);
    spec::Job plain = job;
    plain.layout = canonical(job);
    const MemoryUse use = peak_memory(plain);
    if (!fits(plain, use)) continue;
    ++fitting;
    const Candidate own{plain.layout, plain.cluster.devices, step_time(plain).total_s, use.total()};
    Wishes wishes;  // the axes with most values are held, so that this stays small
    wishes.micro_batch = {job.layout.micro_batch};
    wishes.cp = {job.layout.cp};
    const SearchResult found = search(space_of(job, wishes, job.stack.abilities), {.asked = own});
    EXPECT_GE(found.asked_rank, 1U) << text_of(own);
    EXPECT_LE(found.asked_rank, found.feasible);
    EXPECT_LE(found.ranked.front().step_time_s, own.step_time_s);
  }
  EXPECT_GT(fitting, 50);
}

SearchResult search_gpt(const SearchOptions& options, const Wishes& wishes = {}) {
  const spec::Job job = gpt_job(64);
  return search(space_of(job, wishes, all_abilities()), options);
}

TEST(Search, TheNumberOfThreadsChangesNothing) {
  const SearchResult one = search_gpt({.keep = 500, .pareto = true, .num_threads = 1});
  const SearchResult three = search_gpt({.keep = 500, .pareto = true, .num_threads = 3});
  EXPECT_EQ(one.evaluated, three.evaluated);
  EXPECT_EQ(one.feasible, three.feasible);
  ASSERT_EQ(one.ranked.size(), 500U);
  ASSERT_EQ(three.ranked.size(), 500U);
  for (std::size_t i = 0; i < 500; ++i) EXPECT_TRUE(is_same_layout(one.ranked[i], three.ranked[i])) << i;
  ASSERT_EQ(one.pareto.size(), three.pareto.size());
  for (std::size_t i = 0; i < one.pareto.size(); ++i) EXPECT_TRUE(is_same_layout(one.pareto[i], three.pareto[i])) << i;
}

TEST(Search, RanksByTheObjective) {
  for (const Objective objective : {Objective::time, Objective::cost, Objective::devices, Objective::memory}) {
    Wishes wishes;
    wishes.devices = {16, 32, 64};
    const SearchResult found = search_gpt({.objective = objective, .keep = 100}, wishes);
    ASSERT_EQ(found.ranked.size(), 100U);
    for (std::size_t i = 1; i < 100; ++i) EXPECT_TRUE(is_better(objective, found.ranked[i - 1], found.ranked[i])) << i;
    ASSERT_EQ(found.of_devices.size(), 3U);
    const int devices = found.ranked.front().devices;
    EXPECT_TRUE(objective != Objective::devices || devices == 16);
    EXPECT_TRUE(objective != Objective::time || devices == 64);
  }
}

TEST(Search, WhatMissesTheDeadlineDoesNotCount) {
  const SearchResult all = search_gpt({.keep = 1000000});
  const double limit = all.ranked[all.ranked.size() / 2].step_time_s;
  const SearchResult quick = search_gpt({.keep = 1000000, .within_step_s = limit});
  EXPECT_LT(quick.feasible, all.feasible);
  EXPECT_EQ(quick.feasible + quick.too_slow, all.feasible);
  for (const Candidate& c : quick.ranked) EXPECT_LE(c.step_time_s, limit);
}

TEST(Search, NoMoreMissTheDeadlineThanWereTried) {
  const SearchResult none = search_gpt({.keep = 10, .within_step_s = 1e-6, .bounded = true});
  EXPECT_LE(none.too_slow, none.evaluated);
  EXPECT_TRUE(none.passed_over_too_slow);
}

TEST(Search, NothingOutsideTheParetoSetBeatsAMember) {
  Wishes wishes;
  wishes.devices = {32, 64};
  const SearchResult found = search_gpt({.keep = 1000000, .pareto = true}, wishes);
  ASSERT_FALSE(found.pareto.empty());
  const auto beats = [](const Candidate& a, const Candidate& b) {
    return a.devices <= b.devices && a.step_time_s <= b.step_time_s && a.memory_bytes <= b.memory_bytes &&
           (a.devices < b.devices || a.step_time_s < b.step_time_s || a.memory_bytes < b.memory_bytes);
  };
  const auto beaten = [&](const std::vector<Candidate>& by, const Candidate& c) {
    return std::any_of(by.begin(), by.end(), [&](const Candidate& one) { return beats(one, c); });
  };
  for (const Candidate& member : found.pareto) EXPECT_FALSE(beaten(found.ranked, member)) << text_of(member);
  std::size_t unbeaten = 0;
  std::set<std::tuple<int, double, double>> figures;
  for (const Candidate& c : found.ranked) {
    if (beaten(found.pareto, c)) continue;
    if (figures.emplace(c.devices, c.step_time_s, c.memory_bytes).second) ++unbeaten;
  }
  EXPECT_EQ(unbeaten, found.pareto.size());
}

TEST(Search, AMarginKeepsMemoryFree) {
  const double capacity = gpt_job().cluster.device.memory_bytes;
  const SearchResult found = search_gpt({.keep = 1000000, .memory_margin = 0.3});
  EXPECT_LT(found.feasible, search_gpt({}).feasible);
  spec::Job job = gpt_job(64);
  for (const Candidate& c : found.ranked) {
    job.layout = c.layout;
    ASSERT_LE(peak_memory(job).needed(), 0.7 * capacity);
  }
}

TEST(Search, AStopGivesTheBestSoFar) {
  std::atomic<int> stop = 0;
  SearchOptions options{.num_threads = 1, .stop = &stop};
  options.progress = [&](std::size_t done, std::size_t) { stop = done >= 40; };
  const SearchResult some = search_gpt(options);
  EXPECT_TRUE(some.stopped);
  EXPECT_FALSE(some.ranked.empty());
  EXPECT_LT(some.evaluated, search_gpt({}).evaluated);
}

TEST(Search, NoLayoutOfAGroupBeatsItsBound) {
  Rng rng(11);
  for (int i = 0; i < 200; ++i) {
    const Problem problem = random_problem(rng);
    const Space space = space_of(problem.job, problem.wishes, all_abilities());
    for (const Group& group : space.groups) {
      Space alone = space;
      alone.groups = {group};
      const SearchResult found = search(alone, {.keep = 1, .num_threads = 1});
      if (found.ranked.empty()) continue;
      EXPECT_LE(least_step_s(problem.job, group, problem.job.cluster.devices), found.ranked.front().step_time_s)
          << text_of(found.ranked.front());
    }
  }
}

TEST(Search, WithoutAnyLayoutThereIsNoBest) {
  Wishes wishes;
  wishes.tp = {5};
  const SearchResult none = search_gpt({}, wishes);
  EXPECT_EQ(none.evaluated, 0U);
  EXPECT_TRUE(none.ranked.empty());
}

}  // namespace
}  // namespace twinpod::plan
