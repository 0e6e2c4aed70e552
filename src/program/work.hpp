// The segments of a layer with their physical work in both directions, and how they are joined by communication.
//
//     const LayerPlan plan = layer_plan(job, layer);
//     plan.segments[0].segment == Segment::attention; plan.segments[0].closes     // a collective behind it
//     work_of(plan.segments[0].whole, Phase::backward)
//
// Sums over the segments are those of model::layer_work, which the closed form uses.
#pragma once

#include <vector>

#include "model/segment.hpp"
#include "program/program.hpp"
#include "program/volume.hpp"
#include "spec/job.hpp"

namespace twinpod::program {

// What a segment computes, forward and backward.
struct Piece {
  std::vector<Product> products;  // of the forward pass
  model::AttentionWork attention;
  double attention_share = 0;
  bool attention_fused = true;
  double forward_bytes = 0;  // of memory-bound kernels
  double backward_bytes = 0;
  int forward_kernels = 0;
  int backward_kernels = 0;
  double permute_bytes = 0;  // one way
  double cast_elements = 0;
  double logit_elements = 0;
  double table_bytes = 0;  // of the forward pass
};

Work work_of(const Piece& piece, Phase phase);

// A segment, and what stands before and behind it in the forward pass. In the backward pass it is the other way round.
struct SegmentPlan {
  Segment segment = Segment::block;
  Piece whole;
  // With context parallelism, the three parts of it: up to queries, keys and values; attention; what comes after.
  bool divided = false;
  Piece before;
  Piece attention;
  Piece after;
  bool opens = false;   // tensor parallelism: its input is gathered (with sequence parallelism), its gradient reduced
  bool closes = false;  // its output is reduced
  bool exchanges = false;  // tokens go to or come back from the experts' ranks before it
};

struct LayerPlan {
  std::vector<SegmentPlan> segments;  // in the order of the forward pass
  LayerVolumes volumes;
  // What selective recomputation does again: kernels that are cheap or hold large results; a share of the products.
  Piece cheap;
  Piece products;
  double products_share = 0;
};

LayerPlan layer_plan(const spec::Job& job, const Layer& layer);

Piece embedding_piece(const spec::Job& job);
Piece head_piece(const spec::Job& job);

}  // namespace twinpod::program
