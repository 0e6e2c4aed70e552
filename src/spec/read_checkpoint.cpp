// The section `checkpoint` of a job.
#include "spec/bounds.hpp"
#include "spec/entries.hpp"
#include "spec/names.hpp"
#include "spec/reader.hpp"

namespace twinpod::spec {
namespace {

constexpr int kMostCheckpoints = 1000000000;

void read_tier(const Node& node, Context& context, CheckpointTier& tier) {
  Reader reader(node, context, "a tier");
  reader.choice("tier", tier.kind, kTierKindNames);
  reader.text("path", tier.path);
  reader.count("every", tier.every, 1, kMostCheckpoints);
  reader.count("keep", tier.keep, 1, kMostCheckpoints);
  reader.finish();
  const bool in_memory = tier.kind == TierKind::memory || tier.kind == TierKind::peer;
  if (tier.path.empty() && !in_memory) reader.require("path");
  if (!tier.path.empty() && tier.kind == TierKind::peer)
    context.refuse_key(reader.place("path"), "memory of a peer has no path", "write tier and keep only");
}

// A folder, or tiers.
void read_store(const Node& node, Context& context, std::vector<CheckpointTier>& tiers) {
  tiers.clear();
  if (node.kind == Node::Kind::scalar && !node.scalar.empty()) {
    tiers.push_back({TierKind::shared, node.scalar});
    return;
  }
  if (node.kind != Node::Kind::sequence || node.items.empty()) {
    return context.refuse(node, "store is " + description(node) + "; expected a folder or a list of tiers",
                          "store: runs/a");
  }
  for (const Node& item : node.items) read_tier(item, context, tiers.emplace_back());
}

}  // namespace

void read_checkpoint(const Node& node, Context& context, Checkpoint& checkpoint) {
  Reader reader(node, context, "checkpoint");
  reader.count("every", checkpoint.every, 1, kMostCheckpoints);
  reader.count("keep", checkpoint.keep, 1, kMostCheckpoints);
  reader.choice("on_error", checkpoint.on_error, kOnErrorNames);
  if (const Node* store = reader.take("store")) read_store(*store, context, checkpoint.store);
  reader.finish();
  if (checkpoint.store.empty() && checkpoint.every > 0 && !context.failed())
    context.refuse_key(reader.place("every"), "checkpoint has `every`, but no `store`", "write store: runs/a");
}

}  // namespace twinpod::spec
