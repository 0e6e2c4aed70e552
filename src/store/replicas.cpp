#include <algorithm>
#include <map>
#include <tuple>

#include "store/safetensors.hpp"
#include "store/save.hpp"

namespace twinpod::store {
namespace {

// A region and who holds it: rank, and its place in the rank's list.
struct Copies {
  std::int64_t bytes = 0;
  std::vector<std::pair<std::size_t, std::size_t>> holders;
};

std::vector<Copies> copies_of(const std::vector<std::vector<HeldRegion>>& of_ranks) {
  std::map<std::tuple<std::string, Dims, Dims>, Copies> by_region;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    for (std::size_t i = 0; i < of_ranks[rank].size(); ++i) {
      const HeldRegion& held = of_ranks[rank][i];
      Copies& copies = by_region[{held.tensor, held.region.offset, held.region.size}];
      copies.bytes = num_elements(held.region.size) * element_bytes(held.dtype);
      copies.holders.emplace_back(rank, i);
    }
  }
  std::vector<Copies> all;
  for (auto& [region, copies] : by_region) all.push_back(std::move(copies));
  return all;
}

}  // namespace

// The largest first, each to the holder that has the least so far.
std::vector<std::vector<std::size_t>> regions_to_write(const std::vector<std::vector<HeldRegion>>& of_ranks) {
  std::vector<Copies> all = copies_of(of_ranks);
  std::stable_sort(all.begin(), all.end(), [](const Copies& a, const Copies& b) { return a.bytes > b.bytes; });
  std::vector<std::int64_t> load(of_ranks.size(), 0);
  std::vector<std::vector<std::size_t>> chosen(of_ranks.size());
  for (const Copies& copies : all) {
    const auto [rank, place] =
        *std::min_element(copies.holders.begin(), copies.holders.end(), [&](const auto& a, const auto& b) {
          return std::tuple(load[a.first], a.first) < std::tuple(load[b.first], b.first);
        });
    load[rank] += copies.bytes;
    chosen[rank].push_back(place);
  }
  for (std::vector<std::size_t>& places : chosen) std::sort(places.begin(), places.end());
  return chosen;
}

}  // namespace twinpod::store
