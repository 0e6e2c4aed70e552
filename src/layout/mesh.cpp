#include "layout/mesh.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace twinpod::layout {
namespace {

constexpr std::array<std::string_view, kNumAxes> kAxisNames = {"tp", "cp", "dp", "pp"};
constexpr std::array<std::string_view, kNumGroups> kGroupNames = {
    "tensor", "context",       "data",     "shard", "replica", "expert", "expert_tensor", "expert_data",
    "domain", "expert_domain", "pipeline", "ends",  "mirror",  "model",  "world"};

const GroupShape& shape_of(const Mesh& mesh, Group group) { return mesh.shapes[static_cast<std::size_t>(group)]; }
GroupShape& shape_of(Mesh& mesh, Group group) { return mesh.shapes[static_cast<std::size_t>(group)]; }

void append(GroupShape& shape, Span span) {
  if (span.size <= 1) return;
  if (!shape.empty() && shape.back().size * shape.back().stride == span.stride) {
    shape.back().size *= span.size;
  } else {
    shape.push_back(span);
  }
}

// The ranks of a stage, in order, as one number: its digits are those of all axes but pp. Where pp stands between them,
// digits above it lie pp times further apart.
struct StageDigits {
  int below = 1;  // ranks of a stage below pp
  int pp = 1;
};

StageDigits stage_digits(const Mesh& mesh) {
  StageDigits digits;
  digits.pp = mesh.pp;
  for (const Axis axis : mesh.order) {
    if (axis == Axis::pp) break;
    digits.below *= size(mesh, axis);
  }
  return digits;
}

// A digit of the number within the stage, as digits of the rank. False: pp cuts it where it cannot be cut.
bool append_within_stage(const StageDigits& digits, Span span, GroupShape& shape) {
  const int end = span.size * span.stride;
  if (end <= digits.below || digits.pp == 1) {
    append(shape, span);
  } else if (span.stride >= digits.below) {
    if (span.stride % digits.below != 0) return false;
    append(shape, {span.size, span.stride * digits.pp});
  } else {
    if (digits.below % span.stride != 0 || end % digits.below != 0) return false;
    append(shape, {digits.below / span.stride, span.stride});
    append(shape, {end / digits.below, digits.below * digits.pp});
  }
  return true;
}

GroupShape axes_shape(const Mesh& mesh, std::initializer_list<Axis> axes) {
  GroupShape shape;
  for (const Axis axis : mesh.order) {
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) append(shape, {size(mesh, axis), stride(mesh, axis)});
  }
  return shape;
}

// The first `count` members of a group by position, and those that lie `count` positions apart.
bool split(const GroupShape& whole, int count, GroupShape& near, GroupShape& far) {
  int left = count;
  for (const Span& span : whole) {
    const int taken = std::min(left, span.size);
    if (span.size % taken != 0 || left % taken != 0) return false;
    append(near, {taken, span.stride});
    append(far, {span.size / taken, span.stride * taken});
    left /= taken;
  }
  return left == 1;
}

bool add_expert_shapes(Mesh& mesh) {
  const StageDigits digits = stage_digits(mesh);
  const int of_stage = mesh.tp * mesh.cp * mesh.dp;
  const int model = mesh.etp * mesh.ep;
  return append_within_stage(digits, {mesh.etp, 1}, shape_of(mesh, Group::expert_tensor)) &&
         append_within_stage(digits, {mesh.ep, mesh.etp}, shape_of(mesh, Group::expert)) &&
         append_within_stage(digits, {of_stage / model, model}, shape_of(mesh, Group::expert_data));
}

// The largest equal parts of a group whose members, `stride` devices apart, share a scale-up domain.
void add_domain_shape(Mesh& mesh, Group whole, int domain, int stride, Group part) {
  const int most = std::clamp(domain / std::max(1, stride), 1, size(mesh, whole));
  for (int count = most; count > 1; --count) {
    GroupShape near;
    GroupShape far;
    if (!split(shape_of(mesh, whole), count, near, far)) continue;
    shape_of(mesh, part) = near;
    return;
  }
}

// Groups of two stages are no digits of a rank.
bool is_two_stages(Group group) { return group == Group::ends || group == Group::mirror; }

std::pair<int, int> two_stages(const Mesh& mesh, Group group, int rank) {
  if (group == Group::ends) return {0, mesh.pp - 1};
  const int stage = coordinate(mesh, rank, Axis::pp);
  return std::minmax({stage, mesh.pp - 1 - stage});
}

std::string order_text(const AxisOrder& order) {
  std::string text;
  for (const Axis axis : order) text += fmt::format("{}{}", text.empty() ? "" : "-", name_of(axis));
  return text;
}

}  // namespace

std::string_view name_of(Axis axis) { return kAxisNames[static_cast<std::size_t>(axis)]; }
std::string_view name_of(Group group) { return kGroupNames[static_cast<std::size_t>(group)]; }

int size(const Mesh& mesh, Axis axis) {
  switch (axis) {
    case Axis::tp:
      return mesh.tp;
    case Axis::cp:
      return mesh.cp;
    case Axis::dp:
      return mesh.dp;
    case Axis::pp:
      break;
  }
  return mesh.pp;
}

int stride(const Mesh& mesh, Axis axis) {
  int product = 1;
  for (const Axis one : mesh.order) {
    if (one == axis) break;
    product *= size(mesh, one);
  }
  return product;
}

int coordinate(const Mesh& mesh, int rank, Axis axis) { return rank / stride(mesh, axis) % size(mesh, axis); }

Coordinates coordinates(const Mesh& mesh, int rank) {
  Coordinates at{};
  for (const Axis axis : mesh.order) {
    at[static_cast<std::size_t>(axis)] = rank % size(mesh, axis);
    rank /= size(mesh, axis);
  }
  return at;
}

int rank_at(const Mesh& mesh, const Coordinates& at) {
  int rank = 0;
  int step = 1;
  for (const Axis axis : mesh.order) {
    rank += at[static_cast<std::size_t>(axis)] * step;
    step *= size(mesh, axis);
  }
  return rank;
}

Result<Mesh> mesh_of(const spec::Job& job, const AxisOrder& order) {
  const spec::Layout& layout = job.layout;
  Mesh mesh;
  mesh.order = order;
  mesh.tp = layout.tp;
  mesh.cp = layout.cp;
  mesh.pp = layout.pp;
  mesh.dp = spec::data_parallel(job);
  mesh.ep = layout.ep;
  mesh.etp = spec::expert_tp(layout);
  if (job.model.experts.count == 0) mesh.etp = mesh.tp;
  const int copies = mesh.dp * mesh.cp;
  mesh.shard_group = layout.shard_group > 0 ? std::min(layout.shard_group, copies) : copies;

  shape_of(mesh, Group::tensor) = axes_shape(mesh, {Axis::tp});
  shape_of(mesh, Group::context) = axes_shape(mesh, {Axis::cp});
  shape_of(mesh, Group::data) = axes_shape(mesh, {Axis::cp, Axis::dp});
  shape_of(mesh, Group::pipeline) = axes_shape(mesh, {Axis::pp});
  shape_of(mesh, Group::model) = axes_shape(mesh, {Axis::tp, Axis::pp});
  shape_of(mesh, Group::world) = axes_shape(mesh, {Axis::tp, Axis::cp, Axis::dp, Axis::pp});
  if (!split(shape_of(mesh, Group::data), mesh.shard_group, shape_of(mesh, Group::shard),
             shape_of(mesh, Group::replica))) {
    return infeasible(fmt::format("mesh {}: shard_group {} does not divide into cp {} and dp {}", order_text(order),
                                  mesh.shard_group, mesh.cp, mesh.dp),
                      fmt::format("try shard_group {} or the order tp-cp-dp-pp", mesh.cp));
  }
  if (!add_expert_shapes(mesh)) {
    return infeasible(
        fmt::format("mesh {}: etp {} × ep {} is cut by the pipeline's stages of tp {} × cp {} × dp {} ranks",
                    order_text(order), mesh.etp, mesh.ep, mesh.tp, mesh.cp, mesh.dp),
        "try the order tp-cp-dp-pp");
  }
  const int domain = std::max(1, job.cluster.scale_up_domain);
  add_domain_shape(mesh, Group::data, domain, mesh.tp, Group::domain);
  add_domain_shape(mesh, Group::expert_data, domain, mesh.ep * mesh.etp, Group::expert_domain);
  return mesh;
}

int size(const Mesh& mesh, Group group) {
  if (is_two_stages(group)) return mesh.pp > 1 ? 2 : 1;
  int product = 1;
  for (const Span& span : shape_of(mesh, group)) product *= span.size;
  return product;
}

int num_groups(const Mesh& mesh, Group group) {
  if (group == Group::ends) return mesh.ranks() / mesh.pp;
  return mesh.ranks() / size(mesh, group);
}

std::vector<int> members(const Mesh& mesh, Group group, int rank) {
  if (is_two_stages(group)) {
    const auto [one, other] = two_stages(mesh, group, rank);
    if (one == other) return {rank};
    return {rank_on_stage(mesh, rank, one), rank_on_stage(mesh, rank, other)};
  }
  int base = rank;
  for (const Span& span : shape_of(mesh, group)) base -= rank / span.stride % span.size * span.stride;
  std::vector<int> list = {base};
  list.reserve(static_cast<std::size_t>(size(mesh, group)));
  for (const Span& span : shape_of(mesh, group)) {
    const std::size_t before = list.size();
    for (int digit = 1; digit < span.size; ++digit) {
      for (std::size_t i = 0; i < before; ++i) list.push_back(list[i] + digit * span.stride);
    }
  }
  return list;
}

int position(const Mesh& mesh, Group group, int rank) {
  if (is_two_stages(group)) return coordinate(mesh, rank, Axis::pp) == two_stages(mesh, group, rank).first ? 0 : 1;
  int place = 0;
  int weight = 1;
  for (const Span& span : shape_of(mesh, group)) {
    place += rank / span.stride % span.size * weight;
    weight *= span.size;
  }
  return place;
}

int rank_on_stage(const Mesh& mesh, int rank, int stage) {
  return rank + (stage - coordinate(mesh, rank, Axis::pp)) * stride(mesh, Axis::pp);
}

int neighbour(const Mesh& mesh, Group group, int rank, int by) {
  const int count = size(mesh, group);
  int place = ((position(mesh, group, rank) + by) % count + count) % count;
  if (is_two_stages(group)) {
    const auto [one, other] = two_stages(mesh, group, rank);
    return rank_on_stage(mesh, rank, place == 0 ? one : other);
  }
  int result = rank;
  for (const Span& span : shape_of(mesh, group)) {
    result += (place % span.size - rank / span.stride % span.size) * span.stride;
    place /= span.size;
  }
  return result;
}

}  // namespace twinpod::layout
