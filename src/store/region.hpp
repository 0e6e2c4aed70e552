// Regions: boxes of a tensor's elements. A rank holds regions of tensors; a checkpoint keeps regions; they need not be
// the same ones.
//
//     const Dims shape = {8, 6};
//     const Region left = {{0, 0}, {8, 3}};                      // what tensor-parallel rank 0 of 2 holds
//     const Region top = {{0, 0}, {4, 6}};                       // what a rank of another layout wants
//     overlap(left, top);                                        // {{0, 0}, {4, 3}}
//     regions_of_range(shape, 4, 17);                            // elements 4 to 16 of the flat tensor, as boxes
//
// Elements are counted in row-major order. A tensor without dims is a scalar: one element, one region {{}, {}}.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace twinpod::store {

using Dims = std::vector<std::int64_t>;

struct Region {
  Dims offset;
  Dims size;
  bool operator==(const Region&) const = default;
};

// Product of the dims; -1 when one is negative or it does not fit.
std::int64_t num_elements(const Dims& size);

Region whole(const Dims& shape);
bool is_empty(const Region& region);
bool lies_in(const Region& region, const Dims& shape);

// "[0:4,3:6]"; "[]" for a scalar.
std::string to_string(const Region& region);
std::string to_string(const Dims& dims);

// REQUIRES of all below: regions of the same tensor.
std::optional<Region> overlap(const Region& a, const Region& b);

// What is left of `from`, as boxes that do not meet.
std::vector<Region> without(const Region& from, const Region& taken);
void take_away(std::vector<Region>& from, const Region& taken);

// Elements begin to end - 1 of the flat tensor, as boxes that follow each other. ZeRO cuts so.
// REQUIRES: 0 <= begin <= end <= num_elements(shape).
std::vector<Region> regions_of_range(const Dims& shape, std::int64_t begin, std::int64_t end);

// Elements of `common` that lie side by side in both `source` and `target`, counted from the first element of each.
// REQUIRES: `common` lies in both.
struct Run {
  std::int64_t source = 0;
  std::int64_t target = 0;
  std::int64_t count = 0;
};
void for_each_run(const Region& source, const Region& target, const Region& common,
                  const std::function<void(const Run&)>& body);

}  // namespace twinpod::store
