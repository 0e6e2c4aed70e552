// What `twinpod study sync-async` prints and draws: the same job trained in several modes, and simulated at scale.
#pragma once

#include <string>
#include <vector>

#include "ps/choice.hpp"

namespace twinpod::report {

// The loss on the held-out part at a moment of a run.
struct StudyPoint {
  double seconds = 0;
  double samples = 0;
  double loss = 0;
};

struct StudyMode {
  std::string mode = {};  // "all_reduce", "sync", "async", "ssp:3"
  bool served = false;
  double tokens_per_s = 0;            // while all workers were at work
  double simulated_tokens_per_s = 0;  // the same case simulated
  double scale_factor = 0;
  double waiting_share = 0;      // of the workers' time
  ps::ServedReport report = {};  // of all_reduce: without bytes and staleness
  double final_loss = 0;
  double time_to_target_s = -1;  // -1: not reached
  std::vector<StudyPoint> curve = {};
};

struct StudyScaling {
  std::string mode = {};
  int workers = 0;
  int servers = 0;
  double tokens_per_s = 0;
  double scale_factor = 0;
};

struct Study {
  std::string name = {};
  int workers = 0;
  int servers = 0;
  int steps = 0;
  double step_s = 0;  // of a worker alone, its pace included
  double pace_s = 0;
  std::string straggler = "none";  // as it was written
  double alone_tokens_per_s = 0;
  double passes_s = 0;  // of the runs with servers, the longest median: longer than step_s where cores are too few
  double target_loss = 0;
  bool own_target = false;  // the loss that all modes came to, because none was named
  std::vector<StudyMode> modes = {};
  std::string scaled_on = {};  // where it was simulated at scale
  std::vector<StudyScaling> scaling = {};
};

// When a curve came to the loss, between two points; -1: never.
double seconds_to(const std::vector<StudyPoint>& curve, double loss);

// ", worker 0 is 2 times as slow"; empty when nobody is.
std::string straggler_words(const Study& study);

std::string study_text(const Study& study);
std::string study_json(const Study& study);
std::string study_svg(const Study& study);

}  // namespace twinpod::report
