// The pipeline as SVG.
#include <algorithm>
#include <array>
#include <cmath>

#include "core/thousands.hpp"
#include "report/pipeline_actions.hpp"
#include "report/program_text.hpp"
#include "report/svg_canvas.hpp"

namespace twinpod::report {
namespace {

using program::Action;
using program::Phase;

constexpr double kLeft = 80;
constexpr double kTop = 64;
constexpr double kRow = 30;
constexpr double kBox = 26;
constexpr double kWidest = 1600;  // up to which slots keep their full width
constexpr double kSlot = 26;
constexpr double kSlotLeast = 3;
constexpr double kReadable = 13;  // width of a box from which on a number fits

// Shades by chunk, darkest first; white text on the first.
constexpr std::array kForward = {"#3572b0", "#85b4e0", "#5b93cc", "#bcd7f0"};
constexpr std::array kBackward = {"#2f8f5b", "#8fd0a8", "#57b07d", "#c3e8d0"};
constexpr std::array kWeight = {"#d98324", "#f3c78f", "#e8a55a", "#f9e0c2"};

const char* fill_of(Phase phase, int chunk) {
  const std::size_t shade = static_cast<std::size_t>(chunk) % kForward.size();
  if (phase == Phase::forward) return kForward[shade];
  return phase == Phase::backward_weight ? kWeight[shade] : kBackward[shade];
}

struct Frame {
  double of_time = kSlot;  // pixels
  double x(double time) const { return kLeft + time * of_time; }
  double y(std::size_t stage) const { return kTop + kRow * static_cast<double>(stage); }
};

void box(Canvas& canvas, const Frame& frame, const program::Slot& slot, const Action& action, double top,
         double height) {
  const double left = frame.x(slot.start);
  const double width = frame.x(slot.end) - left;
  canvas.rect(left, top, width, height, fill_of(action.phase, action.chunk), "white", width < kReadable ? 0 : 2,
              width < kReadable ? 0.3 : 1);
  if (width < kReadable) return;
  const double size = std::min(height * 0.5, width < 20 ? 9.0 : 12.0);
  canvas.text(left + width / 2, top + height / 2 + size * 0.36, fmt::format("{}", action.micro_batch),
              {size, "middle", action.chunk % 2 == 0 ? "white" : "#222", false});
}

void draw_stage(const ProgramView& view, const Frame& frame, std::size_t stage, Canvas& canvas) {
  const std::vector<Action>& actions = view.order.stages[stage];
  const std::vector<program::Slot>& slots = view.slots.stages[stage];
  const double top = frame.y(stage);
  canvas.text(kLeft - 10, top + kBox / 2 + 4, fmt::format("stage {}", stage), {12, "end", "#222", false});
  canvas.rect(kLeft, top, frame.x(view.slots.makespan) - kLeft, kBox, "#eeeeee", "none", 0, 0);
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].beside && i + 1 < actions.size()) {
      box(canvas, frame, slots[i], actions[i], top, kBox / 2);
      box(canvas, frame, slots[i + 1], actions[i + 1], top + kBox / 2, kBox / 2);
      ++i;
    } else {
      box(canvas, frame, slots[i], actions[i], top, kBox);
    }
  }
}

void draw_legend(const ProgramView& view, double y, Canvas& canvas) {
  struct Entry {
    Phase phase;
    const char* text;
  };
  double x = kLeft;
  for (const Entry& entry : {Entry{Phase::forward, "forward"}, Entry{Phase::backward, "backward"},
                             Entry{Phase::backward_weight, "gradients of weights"}}) {
    if (entry.phase == Phase::backward_weight && !view.program.splits_backward) continue;
    for (int chunk = 0; chunk < std::min(view.order.chunks, 4); ++chunk) {
      canvas.rect(x, y - 11, 14, 14, fill_of(entry.phase, chunk), "white");
      x += 16;
    }
    canvas.text(x + 4, y, entry.text);
    x += 24 + 7.0 * static_cast<double>(std::string_view(entry.text).size());
  }
  canvas.rect(x, y - 11, 14, 14, "#eeeeee", "white");
  canvas.text(x + 20, y, "idle");
  if (view.order.chunks > 1) canvas.text(x + 60, y, fmt::format("shades: chunks 0 to {}", view.order.chunks - 1));
}

}  // namespace

std::string pipeline_svg(const ProgramView& view) {
  Frame frame;
  frame.of_time = std::clamp(kWidest / view.slots.makespan, kSlotLeast, kSlot);
  double busy = 0;
  for (int s = 0; s < view.order.num_stages(); ++s) busy += view.slots.busy(s);
  const double share = 1 - busy / (view.slots.makespan * view.order.num_stages());
  Canvas canvas;
  canvas.text(kLeft, 26, view.job.name, {16, "start", "#222", true});
  canvas.text(kLeft, 46,
              fmt::format("{}: {}, {}, bubble {:.1f} % in slots of F {:g}, B {:g}, W {:g}", schedule_text(view),
                          counted(view.order.num_stages(), "stage"),
                          counted(view.order.micro_batches, "micro-batch", "micro-batches"), 100 * share,
                          view.weights.forward, view.weights.backward_input, view.weights.backward_weight));
  for (std::size_t stage = 0; stage < view.order.stages.size(); ++stage) draw_stage(view, frame, stage, canvas);
  const double bottom = frame.y(view.order.stages.size()) + 24;
  draw_legend(view, bottom, canvas);
  return canvas.svg(std::max(760.0, frame.x(view.slots.makespan) + 24), bottom + 20);
}

}  // namespace twinpod::report
