// How fast checkpoints are summed, saved, checked and loaded; the disk is that of the folder where it runs.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <filesystem>

#include "store/checkpoints.hpp"
#include "store/checksum.hpp"
#include "store/load.hpp"
#include "store/memory_files.hpp"
#include "store/posix_files.hpp"
#include "store/save.hpp"

namespace twinpod::store {
namespace {

constexpr std::int64_t kElements = 64 << 20;  // 256 MiB

const std::vector<float>& values() {
  static const std::vector<float> all(kElements, 1.5F);
  return all;
}

void must(bool good) {
  if (!good) std::abort();
}

// A folder that is gone at the end.
struct Scratch {
  const std::string root = "store_bench.scratch";
  ~Scratch() { std::filesystem::remove_all(root); }
};

std::string save(Files& files, const std::string& root) {
  const Dims shape = {kElements / 8192, 8192};
  const std::string name = begin_checkpoint(files, root).value();
  const Result<Manifest> part = write_shard(files, root + "/" + name, shard_file(0),
                                            {{"w", "F32", shape, whole(shape), std::as_bytes(std::span(values()))}});
  must(part && commit_checkpoint(files, root, name, *part));
  return name;
}

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * kElements * 4);
}

void sum(benchmark::State& state) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values()));
  for (auto _ : state) {
    for (std::size_t i = 0; i < bytes.size(); i += kExtentBytes) {
      benchmark::DoNotOptimize(checksum(bytes.subspan(i, kExtentBytes)));
    }
  }
  count_bytes(state);
}
BENCHMARK(sum)->UseRealTime();

template <typename Kind>
void save_and_prune(benchmark::State& state) {
  Kind files;
  const Scratch scratch;
  for (auto _ : state) {
    save(files, scratch.root);
    must(prune_checkpoints(files, scratch.root, 1).has_value());
  }
  count_bytes(state);
}
BENCHMARK(save_and_prune<MemoryFiles>)->UseRealTime();
BENCHMARK(save_and_prune<PosixFiles>)->UseRealTime();

// Of the page cache, when the disk is a real one.
template <typename Kind>
void load(benchmark::State& state) {
  Kind files;
  const Scratch scratch;
  const std::string folder = scratch.root + "/" + save(files, scratch.root);
  const Manifest manifest = read_manifest(files, folder).value();
  std::vector<float> loaded(kElements);
  const WantedRegion all = {"w", "F32", whole(manifest.tensors[0].shape), std::as_writable_bytes(std::span(loaded))};
  for (auto _ : state) must(load_regions(files, folder, manifest, {all}).has_value());
  count_bytes(state);
}
BENCHMARK(load<MemoryFiles>)->UseRealTime();
BENCHMARK(load<PosixFiles>)->UseRealTime();

}  // namespace
}  // namespace twinpod::store
