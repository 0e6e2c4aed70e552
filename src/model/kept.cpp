#include "model/kept.hpp"

#include <algorithm>

namespace twinpod::model {
namespace {

constexpr std::int64_t kAlignment = 64;

// Statistics of rows are fp32, or double where all is.
std::int64_t statistic_bytes(std::int64_t element) { return element == 8 ? 8 : 4; }

std::int64_t round_up(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

struct Sizes {
  std::int64_t tokens = 0;  // n
  std::int64_t rows = 0;    // of the residual stream on this rank
  std::int64_t hidden = 0;
  std::int64_t queries = 0;  // on this rank, as the next three
  std::int64_t keys = 0;
  std::int64_t heads = 0;
  std::int64_t ffn = 0;
  std::int64_t gates = 1;
  std::int64_t scores = 0;  // of all heads of this rank
};

Sizes sizes_of(const spec::Model& model, const Shard& shard) {
  Sizes sizes;
  sizes.tokens = static_cast<std::int64_t>(shard.tokens());
  sizes.rows = shard.sequence_parallel ? sizes.tokens / shard.tp : sizes.tokens;
  sizes.hidden = model.hidden;
  sizes.heads = model.attention.heads / shard.tp;
  sizes.queries = sizes.heads * model.attention.head_dim;
  sizes.keys = std::int64_t{model.attention.kv_heads} * model.attention.head_dim / shard.tp;
  sizes.ffn = model.ffn / shard.tp;
  sizes.gates = model.gated_mlp ? 2 : 1;
  sizes.scores = sizes.tokens * sizes.heads * static_cast<std::int64_t>(shard.sequence);
  return sizes;
}

std::array<std::int64_t, kNumKept> bytes_of(const Sizes& s, bool has_mean, const KeptRules& rules) {
  const std::int64_t element = rules.element_bytes;
  const std::int64_t stream = s.rows * s.hidden * element;
  const std::int64_t statistic = s.rows * statistic_bytes(element);
  const std::int64_t mean = has_mean ? statistic : 0;
  const std::int64_t whole = s.tokens * s.hidden * element;
  return {stream,
          mean,
          statistic,
          whole,
          s.tokens * (s.queries + 2 * s.keys) * element,
          s.tokens * s.queries * element,
          rules.fuses_attention ? s.tokens * s.heads * statistic_bytes(element) : 0,
          stream,
          mean,
          statistic,
          whole,
          s.tokens * s.ffn * s.gates * element,
          s.tokens * s.ffn * element,
          rules.fuses_attention ? 0 : s.scores * element};
}

// Selective: what one pass over memory makes again, and scores. Inputs of products that had to be gathered are kept.
bool is_stored(Kept which, const Shard& shard, const KeptRules& rules) {
  if (rules.recompute == spec::Recompute::full && rules.again) return which == Kept::input;
  if (rules.recompute != spec::Recompute::selective) return true;
  if (which == Kept::activated || which == Kept::shares) return false;
  const bool normed = which == Kept::attention_in || which == Kept::mlp_in;
  return !normed || shard.sequence_parallel;
}

}  // namespace

KeptLayer kept_of_layer(const spec::Model& model, const Shard& shard, const KeptRules& rules) {
  const bool has_mean = model.norm == spec::Norm::layer_norm;
  const std::array<std::int64_t, kNumKept> bytes = bytes_of(sizes_of(model, shard), has_mean, rules);
  KeptLayer kept;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    KeptPlace& place = kept.places[i];
    place.stored = is_stored(static_cast<Kept>(i), shard, rules);
    std::int64_t& sum = place.stored ? kept.stored_bytes : kept.working_bytes;
    place.offset = sum;
    place.bytes = bytes[i];
    sum += round_up(bytes[i]);
  }
  return kept;
}

KeptHead kept_of_head(const spec::Model& model, const Shard& shard, int element_bytes, bool fuses_loss) {
  const Sizes s = sizes_of(model, shard);
  KeptHead head;
  const auto place = [&](std::int64_t bytes) {
    const std::int64_t offset = head.bytes;
    head.bytes += round_up(bytes);
    return offset;
  };
  head.input = place(s.rows * s.hidden * element_bytes);
  head.mean = place(model.norm == spec::Norm::layer_norm ? s.rows * statistic_bytes(element_bytes) : 0);
  head.scale = place(s.rows * statistic_bytes(element_bytes));
  head.normed = place(s.tokens * s.hidden * element_bytes);
  head.statistics = place(3 * s.tokens * shard.tp * statistic_bytes(element_bytes));
  const std::int64_t logits = s.tokens * ((model.vocab + shard.tp - 1) / shard.tp) * element_bytes;
  head.logits = place(logits);
  head.probabilities = place(fuses_loss ? 0 : logits);
  head.gradients = place(fuses_loss ? 0 : logits);
  return head;
}

Workspace workspace_of(const spec::Model& model, const Shard& shard, int element_bytes, bool fuses_attention) {
  const Sizes s = sizes_of(model, shard);
  Workspace space;
  const auto place = [&](std::int64_t elements) {
    const std::int64_t offset = space.bytes;
    space.bytes += round_up(elements * element_bytes);
    return offset;
  };
  const std::int64_t whole = s.tokens * s.hidden;
  space.stream = place(whole);
  space.delta = place(whole);
  space.gradient = place(s.rows * s.hidden);
  space.gathered = place(shard.sequence_parallel ? whole : 0);
  space.inward = place(whole);
  const std::int64_t attention = s.tokens * (s.queries + 2 * s.keys);
  const std::int64_t mlp = s.tokens * s.ffn;
  space.outer = place(std::max(s.tokens * s.queries, mlp));
  space.inner = place(std::max(attention, mlp * s.gates));
  space.scores = place(fuses_attention ? 0 : s.scores);
  return space;
}

std::int64_t transfer_elements(const spec::Model& model, const Shard& shard) {
  const Sizes s = sizes_of(model, shard);
  return s.rows * s.hidden;
}

}  // namespace twinpod::model
