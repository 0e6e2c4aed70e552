#include "sim/fold.hpp"

#include <algorithm>
#include <numeric>

namespace twinpod::sim {
namespace {

using Index = std::uint32_t;
using Hash = std::uint64_t;

// The finalizer of splitmix64 (core/rng.hpp), apart from its sequence.
Hash mixed(Hash z) {
  z += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

// Numbers keys 0, 1, ... in order of their first appearance. Open addressing; most graphs have few kinds, and the few
// slots in use stay in the cache.
class Numbering {
 public:
  Index number(Hash key) {
    if (used_ > 0 && key == last_key_) return last_number_;
    if (2 * (used_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place_of(key)];
    if (!slot.taken) {
      slot = {key, static_cast<Index>(used_++), true};
    }
    last_key_ = key;
    last_number_ = slot.number;
    return slot.number;
  }

  void clear() {
    if (used_ == 0) return;
    if (slots_.size() > 64 && slots_.size() > 16 * used_) slots_.resize(64);
    std::fill(slots_.begin(), slots_.end(), Slot{});
    used_ = 0;
  }

 private:
  struct Slot {
    Hash key = 0;
    Index number = 0;
    bool taken = false;
  };

  std::size_t place_of(Hash key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t place = static_cast<std::size_t>(key ^ (key >> 32U)) & mask;
    while (slots_[place].taken && slots_[place].key != key) place = (place + 1) & mask;
    return place;
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : 2 * slots_.size());
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.taken) slots_[place_of(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;
  std::size_t used_ = 0;
  Hash last_key_ = 0;
  Index last_number_ = 0;
};

// One side of the graph while it is refined.
struct Side {
  std::vector<Index> class_of;
  std::vector<Hash> sum;        // over the nodes joined to this one: hash of their class
  std::vector<Index> size;      // of each class
  std::vector<Hash> class_sum;  // of each class: the sum of its members that nothing touched
  std::vector<Index> touched;   // nodes whose sum changed
  std::vector<char> is_touched;
};

struct Moved {
  Index node = 0;
  Index from = 0;
};

struct Group {
  Index from = 0;  // the class that its members have so far
  Index size = 0;
  Index to = 0;
  Hash sum = 0;
};

// Kept between splits, so that small ones do not allocate.
struct Scratch {
  Numbering numbering;
  std::vector<Group> groups;
  std::vector<Index> group_of;          // of each touched node
  std::vector<Index> touched_in_class;  // 0 between splits
  std::vector<Index> largest;           // of each class with touched nodes: its largest group
};

Side initial_side(const std::vector<Hash>& colours) {
  Side side;
  Numbering numbering;
  side.class_of.resize(colours.size());
  for (std::size_t i = 0; i < colours.size(); ++i) {
    const Index c = numbering.number(mixed(colours[i]));
    if (c == side.size.size()) side.size.push_back(0);
    ++side.size[c];
    side.class_of[i] = c;
  }
  side.class_sum.resize(side.size.size());
  side.sum.resize(colours.size());
  side.touched.resize(colours.size());
  std::iota(side.touched.begin(), side.touched.end(), Index{0});
  side.is_touched.assign(colours.size(), 1);
  return side;
}

// Touched nodes of the same class and the same sum form a group.
void find_groups(const Side& side, Scratch& scratch) {
  scratch.numbering.clear();
  scratch.groups.clear();
  scratch.group_of.resize(side.touched.size());
  scratch.touched_in_class.resize(side.size.size(), 0);
  scratch.largest.resize(side.size.size(), 0);
  for (std::size_t i = 0; i < side.touched.size(); ++i) {
    const Index node = side.touched[i];
    const Index from = side.class_of[node];
    const Index g = scratch.numbering.number(mixed(side.sum[node] + 0x9fb21c651e98df25U * (from + Hash{1})));
    if (g == scratch.groups.size()) scratch.groups.push_back({from, 0, 0, side.sum[node]});
    ++scratch.groups[g].size;
    ++scratch.touched_in_class[from];
    scratch.group_of[i] = g;
  }
}

// Gives each group its class: members that nothing touched keep theirs, together with a group that still has their sum;
// without such members the largest group keeps it.
void name_groups(Side& side, Scratch& scratch) {
  constexpr Index kNone = ~Index{0};
  for (const Group& group : scratch.groups) scratch.largest[group.from] = kNone;
  for (Index g = 0; g < scratch.groups.size(); ++g) {
    Index& largest = scratch.largest[scratch.groups[g].from];
    if (largest == kNone || scratch.groups[g].size > scratch.groups[largest].size) largest = g;
  }
  for (Index g = 0; g < scratch.groups.size(); ++g) {
    Group& group = scratch.groups[g];
    const bool whole = scratch.touched_in_class[group.from] == side.size[group.from];
    const bool keeps = whole ? scratch.largest[group.from] == g : group.sum == side.class_sum[group.from];
    group.to = keeps ? group.from : static_cast<Index>(side.class_sum.size());
    if (!keeps) side.class_sum.push_back(group.sum);
    if (keeps && whole) side.class_sum[group.from] = group.sum;
  }
  side.size.resize(side.class_sum.size(), 0);
}

// Splits the classes of the touched nodes; the nodes whose class changed.
std::vector<Moved> split(Side& side, Scratch& scratch) {
  find_groups(side, scratch);
  name_groups(side, scratch);
  for (const Group& group : scratch.groups) {
    scratch.touched_in_class[group.from] = 0;
    if (group.to != group.from) {
      side.size[group.from] -= group.size;
      side.size[group.to] += group.size;
    }
  }
  std::vector<Moved> moved;
  for (std::size_t i = 0; i < side.touched.size(); ++i) {
    const Index node = side.touched[i];
    const Group& group = scratch.groups[scratch.group_of[i]];
    if (group.to != group.from) moved.push_back({node, group.from});
    side.class_of[node] = group.to;
    side.is_touched[node] = 0;
  }
  side.touched.clear();
  return moved;
}

void touch(Side& side, Index node, Hash change) {
  side.sum[node] += change;
  if (side.is_touched[node]) return;
  side.is_touched[node] = 1;
  side.touched.push_back(node);
}

// The joints seen from the right: left[first[r]] ..
struct Backward {
  std::vector<Index> first;
  std::vector<Index> left;
};

Backward backward(const Bipartite& graph) {
  Backward back;
  back.first.assign(graph.right_colour.size() + 1, 0);
  for (const Index r : graph.right) ++back.first[r + 1];
  std::partial_sum(back.first.begin(), back.first.end(), back.first.begin());
  back.left.resize(graph.right.size());
  std::vector<Index> next(back.first.begin(), back.first.end() - 1);
  for (Index l = 0; l + 1 < graph.first.size(); ++l) {
    for (Index i = graph.first[l]; i < graph.first[l + 1]; ++i) back.left[next[graph.right[i]]++] = l;
  }
  return back;
}

void sum_left(const Bipartite& graph, Side& left, const Side& right) {
  for (Index l = 0; l + 1 < graph.first.size(); ++l) {
    Hash sum = 0;
    for (Index i = graph.first[l]; i < graph.first[l + 1]; ++i) sum += mixed(right.class_of[graph.right[i]]);
    left.sum[l] = sum;
  }
}

void sum_right(const Bipartite& graph, const Side& left, Side& right) {
  for (Index l = 0; l + 1 < graph.first.size(); ++l) {
    const Hash share = static_cast<Hash>(graph.left_count[l]) * mixed(left.class_of[l]);
    for (Index i = graph.first[l]; i < graph.first[l + 1]; ++i) right.sum[graph.right[i]] += share;
  }
}

void tell_left(const Backward& back, const std::vector<Moved>& moved, const Side& right, Side& left) {
  for (const Moved& m : moved) {
    const Hash change = mixed(right.class_of[m.node]) - mixed(m.from);
    for (Index i = back.first[m.node]; i < back.first[m.node + 1]; ++i) touch(left, back.left[i], change);
  }
}

void tell_right(const Bipartite& graph, const std::vector<Moved>& moved, const Side& left, Side& right) {
  for (const Moved& m : moved) {
    const Hash count = static_cast<Hash>(graph.left_count[m.node]);
    const Hash change = count * (mixed(left.class_of[m.node]) - mixed(m.from));
    for (Index i = graph.first[m.node]; i < graph.first[m.node + 1]; ++i) touch(right, graph.right[i], change);
  }
}

}  // namespace

Partition refine(const Bipartite& graph) {
  Side left = initial_side(graph.left_colour);
  Side right = initial_side(graph.right_colour);
  Scratch left_scratch;
  Scratch right_scratch;
  sum_left(graph, left, right);
  split(left, left_scratch);
  sum_right(graph, left, right);
  std::vector<Moved> moved = split(right, right_scratch);
  const Backward back = moved.empty() ? Backward{} : backward(graph);
  while (!moved.empty()) {
    tell_left(back, moved, right, left);
    moved = split(left, left_scratch);
    tell_right(graph, moved, left, right);
    moved = split(right, right_scratch);
  }
  return {std::move(left.class_of), std::move(right.class_of), static_cast<Index>(left.size.size()),
          static_cast<Index>(right.size.size())};
}

Partition all_different(const Bipartite& graph) {
  Partition partition;
  partition.num_left = static_cast<Index>(graph.left_colour.size());
  partition.num_right = static_cast<Index>(graph.right_colour.size());
  partition.left_class.resize(partition.num_left);
  partition.right_class.resize(partition.num_right);
  std::iota(partition.left_class.begin(), partition.left_class.end(), Index{0});
  std::iota(partition.right_class.begin(), partition.right_class.end(), Index{0});
  return partition;
}

}  // namespace twinpod::sim
