// `checkpoint`: how often, and to which tiers.
#include <fmt/format.h>

#include "spec/bounds.hpp"
#include "spec/entries.hpp"
#include "spec/names.hpp"

namespace twinpod::spec {
namespace {

constexpr int kMostCheckpoints = 1000000000;

CheckpointTier read_tier(const Node& node, Context& context) {
  CheckpointTier tier;
  Reader reader(node, context, "a tier of checkpoint.store");
  reader.require("tier");
  reader.choice("tier", tier.tier, kStoreTierNames);
  reader.text("path", tier.path);
  reader.count("every", tier.every, 1, kMostCheckpoints);
  reader.count("keep", tier.keep, 1, kMostCheckpoints);
  reader.finish();
  return tier;
}

// A folder, or a list of tiers. The fastest is the one that is saved to, the others are copied to from there.
void read_store(const Node& node, Context& context, std::vector<CheckpointTier>& store) {
  store.clear();
  if (node.kind == Node::Kind::scalar && !node.scalar.empty()) {
    CheckpointTier folder;
    folder.path = node.scalar;
    store.push_back(folder);
    return;
  }
  if (node.kind != Node::Kind::sequence || node.items.empty()) {
    return context.refuse(node, fmt::format("store is {}; expected a folder, or a list of tiers", description(node)),
                          "write store: runs/a, or store: [{tier: memory}, {tier: shared, path: /nfs/a}]");
  }
  for (const Node& item : node.items) {
    if (item.kind != Node::Kind::mapping) {
      return context.refuse(item, fmt::format("store holds {}; expected tiers", description(item)),
                            "write {tier: local, path: /scratch/a}");
    }
    store.push_back(read_tier(item, context));
    if (context.failed()) return;
    if (store.size() < 2 || store[store.size() - 2].tier < store.back().tier) continue;
    return context.refuse(item,
                          fmt::format("store has {} behind {}; expected each tier once, the fastest first",
                                      name_of(store.back().tier), name_of(store[store.size() - 2].tier)),
                          "the order is memory, peer, local, shared, object");
  }
}

}  // namespace

void read_checkpoint(const Node& node, Context& context, Checkpoint& checkpoint) {
  Reader reader(node, context, "checkpoint");
  reader.count("every", checkpoint.every, 0, kMostCheckpoints);
  if (const Node* store = reader.take("store")) read_store(*store, context, checkpoint.store);
  reader.choice("on_error", checkpoint.on_error, kOnErrorNames);
  reader.finish();
}

}  // namespace twinpod::spec
