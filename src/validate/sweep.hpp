// Published sweeps: layouts of one job that somebody compared, and whether the closed form finds the same winner.
//
//     const Result<std::vector<Sweep>> sweeps = read_catalog_sweeps(catalog);
//     Library library(catalog);
//     const Result<SweepRanking> ranking = rank_points(sweeps->front(), library);
//     ranking->winner_rank == 1;  ranking->regret == 0
//
// A ranking asks less than a step time does (what all points share cancels) and more (differences are small). The
// points are rows like those of catalog/runs, and become jobs by the same rules. catalog/sweeps.yaml says what a sweep
// holds.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "spec/catalog.hpp"
#include "validate/published_run.hpp"
#include "validate/run_job.hpp"

namespace twinpod::validate {

struct SweepPoint {
  PublishedRun run;                  // its id says what is special about the point
  double measured_tokens_per_s = 0;  // of all devices; 0: the source states the winner only
};

struct Sweep {
  std::string id, source, finding;
  std::vector<SweepPoint> points;  // different layouts of the same work
  std::size_t winner = 0;          // index of the point that was fastest
};

// `runs` holds the rows that a sweep may name. Refuses, with the place, what names no row or has no winner.
Result<std::vector<Sweep>> read_sweeps(const std::string& path, const std::vector<PublishedRun>& runs);

// catalog/sweeps.yaml with the rows of catalog/runs.
Result<std::vector<Sweep>> read_catalog_sweeps(const spec::Catalog& catalog);

struct RankedPoint {
  std::size_t point = 0;  // index into the sweep's points
  double tokens_per_s = 0;
  double memory_bytes = 0;  // of the fullest device
  bool fits = false;
};

struct SweepRanking {
  std::vector<RankedPoint> ranked;  // fastest first; what does not fit comes last
  int winner_rank = 0;              // of the published winner; 1: the closed form agrees
  double winner_lag = 0;            // share by which its predicted rate is below that of the predicted best
  double regret = 0;  // share of the measured rate that is lost by who takes the predicted best; 0: not measured, too
};

Result<SweepRanking> rank_points(const Sweep& sweep, Library& library);

}  // namespace twinpod::validate
