#include "validate/run_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "plan/memory.hpp"

namespace twinpod::validate {
namespace {

constexpr double kFits = 1.15;       // of the device's memory: the estimate's own error
constexpr double kNearHost = 150e9;  // bytes/s to the host's memory

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// A flag of the run that its source puts into the name or a remark: "eager", "async".
bool mentions(const PublishedRun& run, std::string_view flag) { return has(lower(run.id + " " + run.remark), flag); }

// Letters and digits in lower case: "Qwen3 30B-A3B" and "qwen3-30b-a3b" are the same model.
std::string simplified(const std::string& text) {
  std::string out;
  for (const char c : text.substr(0, text.find('('))) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

int year_of(const PublishedRun& run) {
  int year = 0;
  for (std::size_t i = 0; i < 4 && i < run.date.size(); ++i) {
    if (std::isdigit(static_cast<unsigned char>(run.date[i])) == 0) return 0;
    year = year * 10 + (run.date[i] - '0');
  }
  return year;
}

// "Megatron-Bridge 26.06.01" is 26.06; 0 when there is no such number.
double version_of(const std::string& framework) {
  const std::size_t digits = framework.find_first_of("0123456789");
  return digits == std::string::npos ? 0 : std::strtod(framework.substr(digits, 5).c_str(), nullptr);
}

bool is_tpu(const PublishedRun& run) { return has(run.device, "TPU"); }

spec::Precision precision_of(const PublishedRun& run) {
  if (has(run.precision, "FP4")) return spec::Precision::fp4;
  if (has(run.precision, "FP8")) return spec::Precision::fp8;
  if (has(run.precision, "FP16") && !has(run.precision, "BF16")) return spec::Precision::fp16;
  if (has(run.precision, "FP32") && !has(run.precision, "BF16")) return spec::Precision::fp32;
  return spec::Precision::bf16;
}

spec::Schedule schedule_of(const PublishedRun& run) {
  if (has(run.schedule, "ZB-1p") || has(run.schedule, "ZB-H1")) return spec::Schedule::zb_1p;
  if (has(run.schedule, "ZB-2p") || has(run.schedule, "ZB-H2")) return spec::Schedule::zb_2p;
  if (has(run.schedule, "ZB-V")) return spec::Schedule::zb_v;
  if (has(run.schedule, "DualPipe")) return spec::Schedule::dualpipe;
  if (has(run.schedule, "GPipe")) return spec::Schedule::gpipe;
  return spec::Schedule::one_f_one_b;
}

// "FSDP 256 within slice, DP 4 over DCN", "FSDP2 group 64", "ZeRO-1 optimizer shards over 8-GPU group": the group's
// size.
int shard_group_of(const PublishedRun& run) {
  for (const std::string_view lead : {"FSDP ", "group ", "over "}) {
    const std::size_t found = run.sharding.find(lead);
    if (found == std::string::npos) continue;
    const std::size_t digits = found + lead.size();
    int size = 0;
    for (std::size_t i = digits;
         i < run.sharding.size() && std::isdigit(static_cast<unsigned char>(run.sharding[i])) != 0; ++i) {
      size = size * 10 + (run.sharding[i] - '0');
    }
    if (size > 0) return size;
  }
  return 0;
}

int as_int(double value, int otherwise) { return value > 0 ? static_cast<int>(value) : otherwise; }

spec::Model model_of(const PublishedRun& run, const spec::Stack& stack, const spec::Model* known) {
  spec::Model model;
  if (known != nullptr) model = *known;
  model.name = run.model;
  model.layers = as_int(run.layers, model.layers);
  model.hidden = as_int(run.hidden, model.hidden);
  model.vocab = as_int(run.vocab, model.vocab > 0 ? model.vocab : 51200);
  model.attention.heads =
      as_int(run.heads, model.attention.heads > 0 ? model.attention.heads : std::max(1, model.hidden / 128));
  if (model.attention.kv_rank == 0) {
    model.attention.kv_heads =
        as_int(run.kv_heads, known != nullptr ? model.attention.kv_heads : model.attention.heads);
    model.attention.head_dim = as_int(
        run.head_dim, known != nullptr ? model.attention.head_dim : std::max(1, model.hidden / model.attention.heads));
  }
  if (run.gated_mlp >= 0) model.gated_mlp = run.gated_mlp == 1;
  if (run.experts > 0) {
    model.experts.count = static_cast<int>(run.experts);
    model.experts.per_token = as_int(run.topk, model.experts.per_token);
    if (known == nullptr) model.experts.ffn = static_cast<int>(run.ffn);
    if (model.experts.every < 1) model.experts.every = 1;
    if (has(run.model, "tokendrop")) model.experts.capacity_factor = 1;
    if (!has(run.model, "w/ MTP")) model.mtp_layers = 0;
    model.experts.first_dense_layers = std::min(model.experts.first_dense_layers, model.layers / 2);
  } else {
    model.ffn = as_int(run.ffn, model.ffn > 0 ? model.ffn : 4 * model.hidden);
  }
  model.max_sequence = static_cast<int>(run.seq);
  if (has(run.framework, "MegaScale")) model.parallel_block = true;
  if (stack.dropout && !model.gated_mlp) model.dropout = 0.1;
  return model;
}

// Largest number of chunks of a stage that divides its layers, when a row says "interleaved" and not how far.
int assumed_virtual_stages(const spec::Model& model, const spec::Layout& layout) {
  const int per_stage = model.layers / layout.pp;
  for (int v = std::min(per_stage, 8); v > 1; --v) {
    if (per_stage % v == 0) return v;
  }
  return 1;
}

double capacity_share(const spec::Job& job) {
  return plan::peak_memory(job).needed() / job.cluster.device.memory_bytes;
}

// A row that does not state its micro-batch: one sequence in a pipeline (the bubble asks for many), else the largest
// power of two up to 16 that divides the rank's share of the batch and fits in memory.
void assume_micro_batch(spec::Job& job) {
  const double share = job.training.global_batch / spec::data_parallel(job);
  job.layout.micro_batch = 1;
  if (job.layout.pp > 1) return;
  for (int size = 16; size > 1; size /= 2) {
    if (std::fmod(share, size) != 0) continue;
    job.layout.micro_batch = size;
    if (capacity_share(job) <= 1.0) return;
  }
  job.layout.micro_batch = 1;
}

// A row that does not state recomputation: as few layers of a stage as make the job fit. Where the host's memory is
// near (Grace), activations are parked there instead, which costs next to nothing.
void assume_recompute(spec::Job& job) {
  job.layout.recompute = job.stack.selective_by_default ? spec::Recompute::selective : spec::Recompute::none;
  if (capacity_share(job) <= kFits) return;
  if (job.cluster.device.host_bytes_per_s > kNearHost) {
    job.layout.offload_activations = true;
    return;
  }
  const int layers = (job.model.layers + job.layout.pp - 1) / job.layout.pp;
  job.layout.recompute = spec::Recompute::full;
  int low = 1;
  int high = layers;
  while (low < high) {
    job.layout.recompute_layers = (low + high) / 2;
    if (capacity_share(job) <= kFits)
      high = job.layout.recompute_layers;
    else
      low = job.layout.recompute_layers + 1;
  }
  job.layout.recompute_layers = low;
}

void read_recompute(const PublishedRun& run, RunJob& made) {
  spec::Layout& layout = made.job.layout;
  if (run.recompute.empty()) {
    made.assumed_recompute = true;
    return;
  }
  if (run.recompute == "none")
    layout.recompute = spec::Recompute::none;
  else if (has(run.recompute, "full"))
    layout.recompute = spec::Recompute::full;
  else if (has(run.recompute, "layer"))
    layout.recompute = spec::Recompute::full;
  else
    layout.recompute = spec::Recompute::selective;
  if (has(run.recompute, "layer")) layout.recompute_layers = std::max(1, made.job.model.layers / layout.pp / 2);
  // On a TPU "offload" names a policy that parks a part and recomputes the rest.
  if (has(run.recompute, "offload") && !is_tpu(run)) layout.offload_activations = true;
}

}  // namespace

std::string why_not_covered(const PublishedRun& run) {
  if (run.kind != "llm_training") return "not a training run";
  if (!run.task.empty() && run.task != "pretrain") return "fine-tuning: only a part of the parameters is trained";
  if (run.measured_s() <= 0) return "no step time";
  if (run.layers <= 0 || run.hidden <= 0 || run.seq <= 0) return "no model dimensions";
  if (run.devices <= 0 || run.gbs <= 0) return "no device count or batch";
  if (run.tp <= 0 && run.zero_stage != 3) return "no layout";
  if (has(run.model, "Mamba") || has(run.model, "Nemotron-H") || has(run.model, "NemotronH") || has(run.model, "Jamba"))
    return "not a transformer alone";
  if (has(run.sharding, "offload")) return "offload by a host whose speed is not stated";
  if (has(run.precision, "INT8")) return "integer training";
  return "";
}

std::string stack_of(const PublishedRun& run) {
  const std::string& f = run.framework;
  const int year = year_of(run);
  const bool old_device = has(run.device, "V100") || has(run.device, "A100");
  if (is_tpu(run)) return "maxtext";  // whatever the framework, one compiled program a step
  if (has(run.model, "MLPerf")) return "nemo-mlperf";
  if (has(f, "ZeRO-3") || has(f, "ZeRO3")) return "deepspeed-zero3";
  if (has(f, "Megatron-DeepSpeed")) return year >= 2023 ? "megatron-deepspeed-2023" : "megatron-deepspeed-2022";
  if (has(f, "Neuron")) return "neuron";
  if (has(f, "Megatron-Bridge")) return version_of(f) >= 26.055 ? "megatron-bridge" : "megatron-bridge-2025";
  if (has(f, "AutoModel")) return "nemo-automodel";
  if (has(f, "Megatron-Core") || f == "NeMo 24.07" || has(f, "NeMo 24.03") || has(f, "Megatron-LM/NeMo"))
    return "megatron-core-2024";
  if (has(f, "NeMo") || has(f, "Primus")) return "nemo-2025";
  if (has(f, "MegaScale")) return "megascale";
  if (has(f, "Megatron-LM")) {
    if (year == 0 && !old_device) return "megatron-core-2024";
    if (year >= 2024) return "megatron-core-2023";
    return year >= 2022 || has(f, "fork") ? "megatron-2022" : "megatron-2021";
  }
  if (has(f, "InternEvo")) return "internevo";
  if (has(lower(f), "torchtitan"))
    return mentions(run, "eager") || (!run.date.empty() && run.date < "2024-08") ? "torchtitan-eager" : "torchtitan";
  if (has(f, "llm-foundry") || has(f, "LLM Foundry") || has(f, "FSDP") || has(f, "SageMaker") || has(f, "metaseq"))
    return "fsdp-2023";
  if (has(f, "MaxText") || has(f, "maxtext") || has(f, "paxml") || has(f, "T5X") || has(f, "Levanter") || has(f, "JAX"))
    return "xla-gpu";
  if (has(f, "NeoX")) return "megatron-deepspeed-2022";
  if (year >= 2025) return "nemo-2025";
  return year >= 2023 || (year == 0 && !old_device) ? "megatron-core-2024" : "megatron-2022";
}

Library::Library(const spec::Catalog& catalog) : catalog_(catalog) {
  for (const std::string& name : catalog.names(spec::Shelf::models)) {
    if (Result<spec::Model> model = catalog.model(name)) models_.emplace(simplified(name), std::move(*model));
  }
}

const spec::Model* Library::known_model(const PublishedRun& run) {
  const std::string name = simplified(run.model);
  const spec::Model* best = nullptr;
  std::size_t length = 0;
  for (const auto& [key, model] : models_) {
    if (key.size() <= length || name.rfind(key, 0) != 0) continue;
    if (run.hidden > 0 && model.hidden != static_cast<int>(run.hidden)) continue;
    best = &model;
    length = key.size();
  }
  return best;
}

Result<spec::Stack> Library::stack(const std::string& name, const std::string& device_family) {
  const std::string key = name + "/" + device_family;
  const auto found = stacks_.find(key);
  if (found != stacks_.end()) return found->second;
  Result<spec::Stack> stack = catalog_.stack(name, device_family);
  if (stack) stacks_.emplace(key, *stack);
  return stack;
}

Result<spec::Cluster> Library::cluster_for(const PublishedRun& run) {
  auto found = cluster_of_device_.find(run.device);
  if (found == cluster_of_device_.end()) {
    const Result<std::string> entry = catalog_.device_by_alias(run.device);
    if (!entry) return tl::unexpected(entry.error());
    Result<spec::Device> device = catalog_.device(*entry);
    if (!device) return tl::unexpected(device.error());
    spec::Cluster cluster;
    // What a row does not print (ICI of a TPU, interfaces of a node) comes from a catalog cluster of the same device.
    for (const std::string& name : catalog_.names(spec::Shelf::clusters)) {
      const Result<spec::Cluster> candidate = catalog_.cluster(name);
      if (!candidate || candidate->device.name != device->name) continue;
      if (candidate->scale_out_bytes_per_s > cluster.scale_out_bytes_per_s) cluster = *candidate;
    }
    cluster.device = *device;
    cluster.oversubscription = 1;
    found = cluster_of_device_.emplace(run.device, cluster).first;
  }
  spec::Cluster cluster = found->second;
  cluster.devices = static_cast<int>(run.devices);
  cluster.devices_per_node = as_int(run.devices_per_node, std::max(1, cluster.devices_per_node));
  if (run.intra_gbs > 0) cluster.scale_up_bytes_per_s = run.intra_gbs * 1e9 / 2;  // printed for both directions
  if (run.inter_gbps_per_device > 0) cluster.scale_out_bytes_per_s = run.inter_gbps_per_device * 1e9 / 8;
  if (has(run.intra_link, "NVL72"))
    cluster.scale_up_domain = 72;
  else if (!is_tpu(run))
    cluster.scale_up_domain = cluster.devices_per_node;
  return cluster;
}

Result<RunJob> job_of(const PublishedRun& run, Library& library) {
  RunJob made;
  spec::Job& job = made.job;
  const Result<spec::Cluster> cluster = library.cluster_for(run);
  if (!cluster) return tl::unexpected(cluster.error());
  job.cluster = *cluster;
  const Result<spec::Stack> stack = library.stack(stack_of(run), job.cluster.device.family);
  if (!stack) return tl::unexpected(stack.error());
  job.stack = *stack;
  job.name = run.id;
  job.model = model_of(run, job.stack, library.known_model(run));

  job.training.global_batch = run.gbs;
  job.training.sequence = static_cast<int>(run.seq);
  job.training.precision = precision_of(run);
  job.training.rowwise_scaling = has(run.precision, "rowwise");
  job.training.pure_low_precision = has(run.precision, "pure");

  spec::Layout& layout = job.layout;
  layout.tp = as_int(run.tp, 1);
  layout.pp = as_int(run.pp, 1);
  layout.cp = as_int(run.cp, 1);
  // Experts are spread over a node where a row does not say: nobody gathers all of them for each micro-batch.
  const int spread = run.experts > 0 ? std::min(job.cluster.devices_per_node, static_cast<int>(run.experts)) : 1;
  layout.ep = as_int(run.ep, std::min(spread, job.cluster.devices));
  layout.etp = as_int(run.etp, layout.ep > 1 ? 1 : 0);
  layout.virtual_stages = as_int(run.vpp, 1);
  layout.schedule = schedule_of(run);
  layout.remainder_last = job.stack.remainder_last;
  layout.zero = run.zero_stage >= 0 ? run.zero_stage : job.stack.default_zero;
  layout.shard_group = shard_group_of(run);
  layout.sequence_parallel = run.sp >= 0 ? run.sp == 1 : job.stack.default_sequence_parallel && layout.tp > 1;
  layout.async_tp = has(lower(run.framework), "torchtitan") && mentions(run, "async");
  layout.uneven_ends =
      has(run.schedule, "asymmetric") || (job.model.layers % layout.pp != 0 && (job.model.layers + 2) % layout.pp == 0);
  const int per_replica = layout.tp * layout.pp * layout.cp;
  if (job.cluster.devices % per_replica != 0) {
    return input_error(fmt::format("tp {} x pp {} x cp {} do not divide {} devices", layout.tp, layout.pp, layout.cp,
                                   job.cluster.devices));
  }
  const spec::Experts& experts = job.model.experts;
  if (experts.count > 0 && (experts.per_token < 1 || experts.ffn < 1)) {
    return input_error("experts without their number for a token or their width");
  }
  if (experts.count > 0 && layout.ep > experts.count) return input_error("more expert-parallel ranks than experts");
  if (is_tpu(run)) {
    // One batch for each chip: the replica axis is all that the source calls data parallel.
    const int slice = layout.shard_group > 0 ? layout.shard_group * layout.tp : job.cluster.devices;
    job.cluster.scale_up_domain = std::min(slice, job.cluster.devices);
    layout.micro_batch = std::max(1, static_cast<int>(std::lround(run.gbs * layout.tp / run.devices)));
    layout.zero = 3;
  } else if (run.mbs > 0) {
    layout.micro_batch = static_cast<int>(run.mbs);
  }
  const bool interleaved =
      has(run.schedule, "nterleaved") || has(run.schedule, "1F1B-I") || job.stack.interleaves_by_default;
  if (run.vpp <= 0 && layout.pp > 1 && interleaved) {
    layout.virtual_stages = assumed_virtual_stages(job.model, layout);
    made.assumed_stages = true;
  }
  read_recompute(run, made);
  if (run.mbs <= 0 && !is_tpu(run)) {
    made.assumed_micro_batch = true;
    assume_micro_batch(job);
  }
  if (made.assumed_recompute) assume_recompute(job);
  return made;
}

}  // namespace twinpod::validate
