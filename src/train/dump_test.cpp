// Writes weights, a batch and its gradients, for others to compute the same (tests/train_torch.sh).
//
// A folder for each model: index.json, tokens and labels as int32, NAME.weights and NAME.gradients of each tensor as
// fp32, row by row.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "train/test_tensors.hpp"

namespace twinpod::train {
namespace {

namespace fs = std::filesystem;

// Large enough that every kernel works in blocks, with ends that are not whole.
spec::Job dumped_job(bool llama) {
  spec::Job job = small_job(llama);
  job.model.layers = 3;
  job.model.hidden = 144;
  job.model.ffn = 400;
  job.model.vocab = 509;
  job.model.max_sequence = 100;
  job.model.attention.head_dim = 36;
  job.training.sequence = 90;
  job.training.global_batch = 4;
  job.layout.micro_batch = 2;
  return job;
}

template <typename T>
void write(const fs::path& path, const std::vector<T>& values) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(values.data()),  // NOLINT: raw bytes
             static_cast<std::streamsize>(values.size() * sizeof(T)));
  EXPECT_TRUE(file.flush()) << path;
}

std::vector<float> floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

std::string index_of(const spec::Job& job, double loss) {
  const spec::Model& model = job.model;
  std::string tensors;
  for (const model::Tensor& tensor : tensors_of(model))
    tensors += fmt::format("{}\n  {{\"name\": \"{}\", \"rows\": {}, \"columns\": {}}}", tensors.empty() ? "" : ",",
                           tensor.name, tensor.rows(), tensor.columns);
  const std::string about = fmt::format(
      "{{\"layers\": {}, \"hidden\": {}, \"heads\": {}, \"kv_heads\": {}, \"head_dim\": {}, \"gated_mlp\": {}, "
      "\"rms_norm\": {}, \"rotary\": {}, \"tied_embeddings\": {}}}",
      model.layers, model.hidden, model.attention.heads, model.attention.kv_heads, model.attention.head_dim,
      model.gated_mlp, model.norm == spec::Norm::rms_norm, model.positions == spec::Positions::rotary,
      model.tied_embeddings);
  return fmt::format("{{\"model\": {},\n \"samples\": {}, \"sequence\": {}, \"loss\": {:.17g},\n \"tensors\": [{}]}}\n",
                     about, static_cast<int>(job.training.global_batch), static_cast<int>(job.training.sequence), loss,
                     tensors);
}

void dump(const spec::Job& job, const fs::path& folder) {
  fs::create_directories(folder);
  const Tensors gradients = gradients_of<float>(job);
  on_ranks<float>(job, [&](Rank<float>& rank) -> Result<void> {
    Tensors weights;
    for_each_parameter(rank, [&](const model::Tensor& tensor, std::size_t whole, float value) {
      std::vector<double>& all = weights[tensor.name];
      all.resize(elements_of(tensor));
      all[whole] = value;
    });
    for (const auto& [name, values] : gradients) {
      write(folder / (name + ".weights"), floats(weights.at(name)));
      write(folder / (name + ".gradients"), floats(values));
    }
    write(folder / "tokens", rank.tokens);
    write(folder / "labels", rank.labels);
    const Result<double> loss = evaluate(rank);
    if (!loss) return tl::unexpected(loss.error());
    std::ofstream(folder / "index.json") << index_of(job, *loss);
    return {};
  });
}

TEST(Dump, WeightsBatchAndGradientsAreWrittenForOthers) {
  const fs::path folder = fs::path(testing::TempDir()) / "train_dump";
  fs::remove_all(folder);
  for (const bool llama : {false, true}) {
    const spec::Job job = dumped_job(llama);
    const fs::path own = folder / (llama ? "llama" : "gpt");
    dump(job, own);
    EXPECT_EQ(fs::file_size(own / "tokens"), 4U * 4 * 90);
    for (const model::Tensor& tensor : tensors_of(job.model)) {
      EXPECT_EQ(fs::file_size(own / (tensor.name + ".weights")), 4 * elements_of(tensor));
      EXPECT_EQ(fs::file_size(own / (tensor.name + ".gradients")), 4 * elements_of(tensor));
    }
  }
}

}  // namespace
}  // namespace twinpod::train
