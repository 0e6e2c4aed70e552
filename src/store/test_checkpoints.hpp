// A small model for the tests of the store, whose every element follows from step, tensor and place, saved and loaded
// by the ranks of a layout.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "store/checkpoints.hpp"
#include "store/load.hpp"
#include "store/save.hpp"

namespace twinpod::store {

inline constexpr std::int64_t kTestExtentBytes = 64;

struct TestTensor {
  std::string name;
  Dims shape;
};

inline const std::vector<TestTensor>& test_tensors() {
  static const std::vector<TestTensor> tensors = {
      {"embedding", {7, 6}},        {"layers.0.norm", {5}}, {"layers.0.qkv", {6, 9}},
      {"layers.1.conv", {3, 4, 5}}, {"scale", {}},          {"none", {0, 3}}};
  return tensors;
}

// Ranks: dp · pp · tp of them. With `zero`, data-parallel ranks hold parts of what they would hold copies of.
struct TestLayout {
  int tp = 1;
  int pp = 1;
  int dp = 1;
  bool zero = false;
  int ranks() const { return tp * pp * dp; }
};

inline float test_value(std::int64_t step, std::size_t tensor, std::int64_t element) {
  return static_cast<float>(step * 10000 + static_cast<std::int64_t>(tensor) * 1000 + element);
}

// What tensor-parallel rank t of the layout has of a tensor: cut along its first or last dim, unevenly when it must be.
inline Region tensor_parallel_region(const Dims& shape, std::size_t tensor, int tp, int t) {
  Region region = whole(shape);
  if (shape.empty() || tp == 1) return region;
  const std::size_t dim = tensor % 2 == 0 ? shape.size() - 1 : 0;
  region.offset[dim] = shape[dim] * t / tp;
  region.size[dim] = shape[dim] * (t + 1) / tp - region.offset[dim];
  return region;
}

struct TestRegion {
  std::size_t tensor = 0;
  Region region;
  std::vector<float> values;
};

inline std::vector<TestRegion> regions_of_rank(const TestLayout& layout, int rank) {
  const int t = rank % layout.tp;
  const int p = rank / layout.tp % layout.pp;
  const int d = rank / layout.tp / layout.pp;
  std::vector<TestRegion> regions;
  for (std::size_t i = 0; i < test_tensors().size(); ++i) {
    if (static_cast<int>(i) % layout.pp != p) continue;
    const Region local = tensor_parallel_region(test_tensors()[i].shape, i, layout.tp, t);
    std::vector<Region> parts = {local};
    const std::int64_t elements = num_elements(local.size);
    if (layout.zero && elements > 0) {
      parts = regions_of_range(local.size, elements * d / layout.dp, elements * (d + 1) / layout.dp);
      for (Region& part : parts) {
        for (std::size_t k = 0; k < part.offset.size(); ++k) part.offset[k] += local.offset[k];
      }
    }
    for (const Region& part : parts) {
      regions.push_back({i, part, std::vector<float>(static_cast<std::size_t>(num_elements(part.size)))});
    }
  }
  return regions;
}

// Calls body(value in the region, element in the whole tensor).
template <typename Body>
void for_each_element(TestRegion& region, const Body& body) {
  const Region all = whole(test_tensors()[region.tensor].shape);
  if (region.values.empty()) return;
  for_each_run(region.region, all, region.region, [&](const Run& run) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      body(region.values[static_cast<std::size_t>(run.source + i)], run.target + i);
    }
  });
}

inline std::vector<HeldRegion> held_regions(const std::vector<TestRegion>& regions) {
  std::vector<HeldRegion> held;
  for (const TestRegion& region : regions) {
    const TestTensor& tensor = test_tensors()[region.tensor];
    held.push_back({tensor.name, "F32", tensor.shape, region.region, std::as_bytes(std::span(region.values))});
  }
  return held;
}

// What the ranks of a layout write, and their manifest.
inline Result<void> save_as(Files& files, const std::string& root, const std::string& name, std::int64_t step,
                            const TestLayout& layout) {
  std::vector<std::vector<TestRegion>> regions;
  std::vector<std::vector<HeldRegion>> held;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    regions.push_back(regions_of_rank(layout, rank));
    for (TestRegion& region : regions.back()) {
      for_each_element(region, [&](float& value, std::int64_t at) { value = test_value(step, region.tensor, at); });
    }
    held.push_back(held_regions(regions.back()));
  }
  const std::vector<std::vector<std::size_t>> chosen = regions_to_write(held);
  std::vector<Manifest> parts;
  for (std::size_t rank = 0; rank < held.size(); ++rank) {
    std::vector<HeldRegion> own;
    for (const std::size_t place : chosen[rank]) own.push_back(held[rank][place]);
    const Result<Manifest> part =
        write_shard(files, root + "/" + name, shard_file(static_cast<int>(rank)), own, kTestExtentBytes);
    if (!part) return tl::unexpected(part.error());
    parts.push_back(*part);
  }
  Result<Manifest> all = joined_manifest(parts);
  if (!all) return tl::unexpected(all.error());
  all->state.step = step;
  all->state.samples = step * 8;
  return commit_checkpoint(files, root, name, std::move(*all));
}

// Everything that a save does, of all ranks; returns the checkpoint's name.
inline Result<std::string> save_step(Files& files, const std::string& root, std::int64_t step,
                                     const TestLayout& layout) {
  Result<std::string> name = begin_checkpoint(files, root);
  if (!name) return name;
  const Result<void> saved = save_as(files, root, *name, step, layout);
  if (saved) return name;
  (void)drop_unfinished(files, root, *name);
  return tl::unexpected(saved.error());
}

// Loads what the ranks of the layout hold and compares each element; "" when all are right.
inline std::string check_step(Files& files, const std::string& folder, const Manifest& manifest,
                              const TestLayout& layout) {
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    std::vector<TestRegion> regions = regions_of_rank(layout, rank);
    std::vector<WantedRegion> wanted;
    for (TestRegion& region : regions) {
      wanted.push_back(
          {test_tensors()[region.tensor].name, "F32", region.region, std::as_writable_bytes(std::span(region.values))});
    }
    const Result<std::int64_t> loaded = load_regions(files, folder, manifest, wanted);
    if (!loaded) return to_string(loaded.error());
    std::string wrong;
    for (TestRegion& region : regions) {
      for_each_element(region, [&](float& value, std::int64_t at) {
        if (value == test_value(manifest.state.step, region.tensor, at)) return;
        wrong = fmt::format("rank {}: {} element {} is {}", rank, test_tensors()[region.tensor].name, at, value);
      });
    }
    if (!wrong.empty()) return wrong;
  }
  return "";
}

}  // namespace twinpod::store
