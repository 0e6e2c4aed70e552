// DualPipe and DualPipeV. A stage holds two chunks; `own` is the one whose micro-batches enter the pipeline at the
// nearer end, `other` the one that comes from the far end (DualPipe) or back up the V (DualPipeV). Both follow the same
// eight parts, in which a stage at distance d from the end of n stages
//   1. fills: F own                                5. drains: B other, then F other beside B own
//   2. F own, F other in turn                      6. B other, B own in turn, the later ones without their weights
//   3. B other without weights, its W, F other     7. W, B own without weights
//   4. pairs: F own beside B other, F other        8. W
//      beside B own
#include <deque>

#include "program/order.hpp"

namespace twinpod::program {
namespace {

struct Half {
  int chunk = 0;
  int first = 0;  // micro-batch
  int forwards = 0;
  int backwards = 0;
};

struct DualList {
  std::vector<Action> list;
  Half own;
  Half other;
  std::deque<Action> weights;  // put off, oldest first

  void forward(Half& half, bool beside = false) {
    list.push_back({Phase::forward, half.first + half.forwards++, half.chunk, beside});
  }
  void backward(Half& half, bool without_weights = false) {
    const int micro_batch = half.first + half.backwards++;
    list.push_back({without_weights ? Phase::backward_input : Phase::backward, micro_batch, half.chunk, false});
    if (without_weights) weights.push_back({Phase::backward_weight, micro_batch, half.chunk, false});
  }
  void pair(Half& ahead, Half& back) {
    forward(ahead, true);
    backward(back);
  }
  void weight() {
    list.push_back(weights.front());
    weights.pop_front();
  }
};

// `n` stages from one end to the middle or to the bottom of the V, `d` the stage's place among them, `m` micro-batches
// of each half.
std::vector<Action> eight_parts(int n, int d, int m, DualList dual) {
  for (int i = 0; i < 2 * (n - d - 1); ++i) dual.forward(dual.own);
  for (int i = 0; i < d + 1; ++i) {
    dual.forward(dual.own);
    dual.forward(dual.other);
  }
  for (int i = 0; i < n - d - 1; ++i) {
    dual.backward(dual.other, true);
    dual.weight();
    dual.forward(dual.other);
  }
  for (int i = 0; i < m - 2 * n + d + 1; ++i) {
    // The innermost stage has nothing to hide in its first pair, and one after the other is sooner done.
    if (i == 0 && d == n - 1) {
      dual.forward(dual.own);
      dual.backward(dual.other);
    } else {
      dual.pair(dual.own, dual.other);
    }
    dual.pair(dual.other, dual.own);
  }
  for (int i = 0; i < n - d - 1; ++i) {
    dual.backward(dual.other);
    dual.pair(dual.other, dual.own);
  }
  bool later = false;
  for (int i = 0; i < d + 1; ++i) {
    later = later || (i == (d + 1) / 2 && d % 2 == 1);
    dual.backward(dual.other, later);
    later = later || (i == (d + 1) / 2 && d % 2 == 0);
    dual.backward(dual.own, later);
  }
  for (int i = 0; i < n - d - 1; ++i) {
    dual.weight();
    dual.backward(dual.own, true);
  }
  for (int i = 0; i < d + 1; ++i) dual.weight();
  return std::move(dual.list);
}

}  // namespace

Order dualpipe(int stages, int micro_batches) {
  Order order;
  order.placement = Placement::mirror;
  order.chunks = 2;
  order.micro_batches = micro_batches;
  for (int s = 0; s < stages; ++s) {
    const bool lower = s >= stages / 2;
    const Half down{0, 0, 0, 0};
    const Half up{1, micro_batches / 2, 0, 0};
    DualList dual{{}, lower ? up : down, lower ? down : up, {}};
    order.stages.push_back(eight_parts(stages / 2, lower ? stages - 1 - s : s, micro_batches / 2, std::move(dual)));
  }
  return order;
}

Order dualpipe_v(int stages, int micro_batches) {
  Order order;
  order.placement = Placement::v;
  order.chunks = 2;
  order.micro_batches = micro_batches;
  for (int s = 0; s < stages; ++s) {
    DualList dual{{}, {0, 0, 0, 0}, {1, 0, 0, 0}, {}};
    order.stages.push_back(eight_parts(stages, s, micro_batches, std::move(dual)));
  }
  return order;
}

}  // namespace twinpod::program
