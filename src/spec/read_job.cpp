// A job from its document: the parts, then the defaults that follow from several of them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "spec/bounds.hpp"
#include "spec/entries.hpp"
#include "spec/names.hpp"
#include "spec/read.hpp"

namespace twinpod::spec {
namespace {

// `schedule: {file: mine.csv}`, or `schedule: mine.csv` as the command line says it; empty: a schedule with a name.
std::string schedule_file(const Node& layout) {
  const Node* schedule = layout.find("schedule");
  if (schedule == nullptr) return "";
  const Node* file = schedule->find("file");
  if (file != nullptr && schedule->keys.size() == 1 && file->kind == Node::Kind::scalar) return file->scalar;
  return schedule->kind == Node::Kind::scalar && schedule->scalar.ends_with(".csv") ? schedule->scalar : "";
}

void read_axes(Reader& reader, Layout& layout) {
  reader.count("dp", layout.dp, 1, kMaxDevices);
  reader.count("tp", layout.tp, 1, kMaxParallel);
  reader.count("pp", layout.pp, 1, kMaxParallel);
  reader.count("virtual_stages", layout.virtual_stages, 1, kMaxLayers);
  reader.count("cp", layout.cp, 1, kMaxParallel);
  reader.choice("context_exchange", layout.context_exchange, kContextExchangeNames);
  reader.count("ep", layout.ep, 1, kMaxParallel);
  reader.count("etp", layout.etp, 0, kMaxParallel);
  reader.count("zero", layout.zero, 0, 3);
  reader.count("shard_group", layout.shard_group, 0, kMaxDevices);
  reader.count("micro_batch", layout.micro_batch, 1, kMaxBatch);
}

void read_recipe(Reader& reader, Recipe& recipe) {
  constexpr int kMostSteps = 1000000000;
  reader.count("steps", recipe.steps, 1, kMostSteps);
  reader.quantity("learning_rate", recipe.learning_rate, Quantity::number, 0, 100);
  reader.quantity("final_share", recipe.final_share, Quantity::fraction, 0, 1);
  reader.count("warmup", recipe.warmup, 0, kMostSteps);
  reader.choice("decay", recipe.decay, kRateDecayNames);
  reader.quantity("decay_share", recipe.decay_share, Quantity::fraction, 0, 1);
  reader.quantity("weight_decay", recipe.weight_decay, Quantity::number, 0, 100);
  reader.quantity("clip", recipe.clip, Quantity::number, 0, 1e9);
  reader.quantity("beta1", recipe.beta1, Quantity::number, 0, 0.999999);
  reader.quantity("beta2", recipe.beta2, Quantity::number, 0, 0.9999999);
  reader.quantity("epsilon", recipe.epsilon, Quantity::number, 0, 1);
  reader.quantity("momentum", recipe.momentum, Quantity::number, 0, 0.999999);
  reader.quantity("dropout", recipe.dropout, Quantity::fraction, 0, 0.99);
  reader.quantity("attention_dropout", recipe.attention_dropout, Quantity::fraction, 0, 0.99);
  reader.choices("unfused", recipe.unfused, kFusionNames);
  reader.flag("whole_gradients", recipe.whole_gradients);
  reader.count("seed", recipe.seed, 0, kMostSteps);
  reader.count("evaluate_every", recipe.evaluate_every, 0, kMostSteps);
  reader.count("evaluation_batches", recipe.evaluation_batches, 1, kMostSteps);
}

void read_data(const Node& node, Context& context, Data& data) {
  Reader reader(node, context, "data");
  reader.text("tokens", data.tokens);
  reader.texts("text", data.text);
  reader.quantity("evaluation_share", data.evaluation_share, Quantity::fraction, 0, 0.9);
  reader.finish();
  if (!data.tokens.empty() && !data.text.empty())
    context.refuse_key(reader.place("text"), "data has both tokens and text", "write one of them");
}

void read_training_fields(const Node& node, Context& context, Training& training, double& batch_tokens) {
  Reader reader(node, context, "training");
  int sequences = 0;
  reader.count("global_batch", sequences, 1, kMaxBatch);
  training.global_batch = sequences;
  reader.quantity("global_batch_tokens", batch_tokens, Quantity::number, 1, 1e15);
  reader.count("sequence", training.sequence, 1, kMaxSequence);
  reader.choice("precision", training.precision, kPrecisionNames);
  reader.flag("rowwise_scaling", training.rowwise_scaling);
  reader.flag("pure_low_precision", training.pure_low_precision);
  reader.choice("optimizer", training.optimizer, kOptimizerNames);
  reader.quantity("gradient_bytes", training.gradient_bytes, Quantity::bytes, 1, 8);
  reader.quantity("tokens", training.tokens, Quantity::number, 1, kMaxTokens);
  reader.quantity("target_loss", training.target_loss, Quantity::number, 0.01, 100);
  reader.quantity("bytes_per_token", training.bytes_per_token, Quantity::bytes, 0.125, 1e6);
  read_recipe(reader, training.recipe);
  reader.finish();
  if (training.global_batch > 0 && batch_tokens > 0) {
    context.refuse_key(reader.place("global_batch_tokens"), "global_batch and global_batch_tokens are both written",
                       "write one of them");
  }
}

Precision default_precision(const Device& device) {
  for (const Precision precision : {Precision::bf16, Precision::fp16, Precision::tf32}) {
    if (device.peak_flop_per_s[static_cast<std::size_t>(precision)] > 0) return precision;
  }
  return Precision::fp32;
}

void check_precision(const Node& root, Context& context, const Job& job) {
  const Device& device = job.cluster.device;
  if (device.peak_flop_per_s[static_cast<std::size_t>(job.training.precision)] > 0) return;
  std::string known;
  for (const auto& [name, precision] : kPrecisionNames) {
    if (device.peak_flop_per_s[static_cast<std::size_t>(precision)] > 0) known += fmt::format(" {}", name);
  }
  context.refuse(place_of(root, {"training.precision", "cluster"}),
                 fmt::format("{} does not compute in {}", device.name, name_of(job.training.precision)),
                 "it computes in" + known);
}

void read_devices(Reader& reader, Context& context, Cluster& cluster) {
  int devices = cluster.devices;
  reader.count("devices", devices, 1, kMaxDevices);
  if (devices > cluster.devices) {
    context.refuse(reader.place("devices"),
                   fmt::format("the job uses {} devices, but {} has {}", devices,
                               cluster.name.empty() ? "its cluster" : cluster.name, cluster.devices),
                   fmt::format("write at most {}, or a larger cluster", cluster.devices));
  }
  cluster.devices = devices;
}

}  // namespace

std::string_view default_stack(const Device& device) {
  if (device.family == "cpu") return "twinpod";  // nobody else's was measured on them
  if (device.vendor == "Google") return "maxtext";
  if (device.vendor == "AWS" || device.vendor == "Amazon") return "neuron";
  // The last Megatron that was measured on them, and it was with FlashAttention.
  if (device.family == "a100" || device.family == "v100") return "megatron-core-2023";
  return "nemo-2025";
}

namespace {

void read_stack(Reader& reader, Context& context, const Catalog& catalog, Job& job) {
  Node fallback;
  fallback.kind = Node::Kind::scalar;
  fallback.scalar = default_stack(job.cluster.device);
  const Node* written = reader.take("stack");
  job.names_stack = written != nullptr;
  if (context.failed()) return;
  resolve_stack(written == nullptr ? fallback : *written, context, catalog, job.cluster.device.family, job.stack);
  set_fields(job.cluster.measured.numbers, job.stack.physics);
}

// What the job leaves open, its stack does as it usually does.
void apply_habits(const Node* node, const Stack& stack, Layout& layout) {
  const auto says = [&](std::string_view key) { return node != nullptr && node->find(key) != nullptr; };
  if (!says("recompute") && stack.selective_by_default) layout.recompute = Recompute::selective;
  if (!says("zero")) layout.zero = stack.default_zero;
  if (!says("remainder_last")) layout.remainder_last = stack.remainder_last;
  if (!says("sequence_parallel")) layout.sequence_parallel = stack.default_sequence_parallel && layout.tp > 1;
}

void read_layout(Reader& reader, Context& context, Job& job) {
  const Node* node = reader.mapping("layout");
  job.has_layout = node != nullptr;
  if (node != nullptr) {
    read_layout_fields(*node, context, job.layout);
    job.schedule_file = schedule_file(*node);
  }
  apply_habits(node, job.stack, job.layout);
}

void read_training(Reader& reader, const Node& root, Context& context, Job& job) {
  Training& training = job.training;
  double batch_tokens = 0;
  training.precision = default_precision(job.cluster.device);
  if (const Node* node = reader.mapping("training")) read_training_fields(*node, context, training, batch_tokens);
  if (context.failed()) return;
  check_precision(root, context, job);
  if (training.sequence == 0) training.sequence = job.model.max_sequence;
  if (training.sequence == 0) {
    return context.refuse(place_of(root, {"training"}),
                          "training has no `sequence`, and the model says no max_sequence", "write training.sequence");
  }
  // A table of learned positions must have a row for each token.
  if (job.model.positions == Positions::learned) {
    job.model.max_sequence = std::max(job.model.max_sequence, training.sequence);
  }
  if (training.global_batch == 0) {
    training.batch_tokens = batch_tokens > 0 ? batch_tokens : kDefaultStepTokens;
    training.global_batch = shared_batch(job, training.batch_tokens);
  }
}

}  // namespace

// Interleaving works in rounds of as many micro-batches as there are stages.
double shared_batch(const Job& job, double tokens) {
  const double round = job.layout.schedule == Schedule::interleaved ? job.layout.pp : 1;
  const double share = std::max(1.0, static_cast<double>(data_parallel(job)) * job.layout.micro_batch * round);
  return share * std::max(1.0, std::round(tokens / job.training.sequence / share));
}

std::string default_name(const Job& job) {
  return fmt::format("{} on {} x {}", job.model.name.empty() ? "model" : job.model.name, job.cluster.devices,
                     job.cluster.device.name.empty() ? "device" : job.cluster.device.name);
}

void read_layout_fields(const Node& node, Context& context, Layout& layout) {
  Reader reader(node, context, "layout");
  read_axes(reader, layout);
  reader.flag("sequence_parallel", layout.sequence_parallel);
  reader.choice("recompute", layout.recompute, kRecomputeNames);
  reader.count("recompute_layers", layout.recompute_layers, 0, kMaxLayers);
  if (layout.virtual_stages > 1) layout.schedule = Schedule::interleaved;
  if (!schedule_file(node).empty()) {
    const Node* schedule = reader.take("schedule");
    const Node* file = schedule == nullptr ? nullptr : schedule->find("file");
    if (schedule != nullptr && is_text(file != nullptr ? *file : *schedule, "schedule", context))
      layout.schedule = Schedule::custom;
  } else {
    reader.choice("schedule", layout.schedule, kScheduleNames);
  }
  reader.count("servers", layout.servers, 0, kMaxDevices);
  reader.flag("offload_optimizer", layout.offload_optimizer);
  reader.flag("offload_activations", layout.offload_activations);
  reader.flag("remainder_last", layout.remainder_last);
  reader.flag("uneven_ends", layout.uneven_ends);
  reader.flag("async_tp", layout.async_tp);
  if (node.find("overlap") != nullptr) reader.flag("overlap", layout.overlap.emplace());
  reader.finish();
  if (layout.recompute_layers > 0 && layout.recompute != Recompute::full) {
    context.refuse_key(reader.place("recompute_layers"), "recompute_layers says nothing without recompute: full",
                       "write recompute: full");
  }
}

Result<Job> read_job_node(const Node& root, const std::string& file, const Catalog& catalog) {
  Context context(file);
  Job job{};
  Reader reader(root, context, "the job");
  reader.require("model");
  reader.require("cluster");
  reader.text("name", job.name);
  std::string notes;
  reader.prose("notes", notes);
  if (const Node* model = reader.take("model")) resolve_model(*model, context, catalog, job.model);
  if (const Node* cluster = reader.take("cluster")) resolve_cluster(*cluster, context, catalog, job.cluster);
  job.names_devices = root.find("devices") != nullptr;
  read_devices(reader, context, job.cluster);
  read_stack(reader, context, catalog, job);
  read_layout(reader, context, job);
  read_training(reader, root, context, job);
  if (const Node* data = reader.mapping("data")) read_data(*data, context, job.data);
  if (const Node* checkpoint = reader.mapping("checkpoint")) read_checkpoint(*checkpoint, context, job.checkpoint);
  reader.finish();
  if (context.failed()) return tl::unexpected(context.error());
  if (job.name.empty()) job.name = default_name(job);
  return job;
}

}  // namespace twinpod::spec
