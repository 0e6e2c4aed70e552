#include "store/region.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace twinpod::store {
namespace {

std::int64_t end_of(const Region& region, std::size_t dim) { return region.offset[dim] + region.size[dim]; }

// Elements from one index of `dim` to the next.
std::int64_t stride(const Dims& size, std::size_t dim) {
  std::int64_t elements = 1;
  for (std::size_t d = dim + 1; d < size.size(); ++d) elements *= size[d];
  return elements;
}

// Dims from the returned one on lie side by side in both: the common box has all of them but, perhaps, the first.
std::size_t first_joined_dim(const Region& source, const Region& target, const Region& common) {
  std::size_t dim = common.size.empty() ? 0 : common.size.size() - 1;
  while (dim > 0 && common.size[dim] == source.size[dim] && common.size[dim] == target.size[dim]) --dim;
  return dim;
}

// Of an element at `index` of the tensor, counted from the first of the region.
std::int64_t place_in(const Region& region, const Dims& index) {
  std::int64_t place = 0;
  for (std::size_t d = 0; d < index.size(); ++d) place = place * region.size[d] + (index[d] - region.offset[d]);
  return place;
}

// The next index over the dims before `num_dims`; false after the last.
bool advance(Dims& index, const Region& box, std::size_t num_dims) {
  for (std::size_t d = num_dims; d-- > 0;) {
    if (++index[d] < end_of(box, d)) return true;
    index[d] = box.offset[d];
  }
  return false;
}

}  // namespace

std::int64_t num_elements(const Dims& size) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t dim : size) {
    if (dim < 0) return -1;
    empty |= dim == 0;
    if (dim > 0 && __builtin_mul_overflow(product, dim, &product)) return -1;
  }
  return empty ? 0 : product;
}

Region whole(const Dims& shape) { return {Dims(shape.size(), 0), shape}; }

bool is_empty(const Region& region) {
  return std::any_of(region.size.begin(), region.size.end(), [](std::int64_t size) { return size <= 0; });
}

bool lies_in(const Region& region, const Dims& shape) {
  if (region.offset.size() != shape.size() || region.size.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (region.offset[d] < 0 || region.size[d] < 0 || region.offset[d] > shape[d]) return false;
    if (region.size[d] > shape[d] - region.offset[d]) return false;
  }
  return true;
}

std::string to_string(const Region& region) {
  std::string text;
  for (std::size_t d = 0; d < region.offset.size(); ++d) {
    text += fmt::format("{}{}:{}", d == 0 ? "" : ",", region.offset[d], end_of(region, d));
  }
  return "[" + text + "]";
}

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }

std::optional<Region> overlap(const Region& a, const Region& b) {
  Region common;
  for (std::size_t d = 0; d < a.offset.size(); ++d) {
    const std::int64_t begin = std::max(a.offset[d], b.offset[d]);
    const std::int64_t end = std::min(end_of(a, d), end_of(b, d));
    if (begin >= end) return std::nullopt;
    common.offset.push_back(begin);
    common.size.push_back(end - begin);
  }
  return common;
}

std::vector<Region> without(const Region& from, const Region& taken) {
  const std::optional<Region> common = overlap(from, taken);
  if (!common) return {from};
  std::vector<Region> left;
  Region rest = from;  // what has not been cut along the dims so far
  for (std::size_t d = 0; d < from.size.size(); ++d) {
    Region before = rest;
    before.size[d] = common->offset[d] - rest.offset[d];
    Region after = rest;
    after.offset[d] = end_of(*common, d);
    after.size[d] = end_of(rest, d) - after.offset[d];
    if (!is_empty(before)) left.push_back(before);
    if (!is_empty(after)) left.push_back(after);
    rest.offset[d] = common->offset[d];
    rest.size[d] = common->size[d];
  }
  return left;
}

void take_away(std::vector<Region>& from, const Region& taken) {
  std::vector<Region> left;
  for (const Region& region : from) {
    std::vector<Region> parts = without(region, taken);
    left.insert(left.end(), parts.begin(), parts.end());
  }
  from = std::move(left);
}

std::vector<Region> regions_of_range(const Dims& shape, std::int64_t begin, std::int64_t end) {
  std::vector<Region> regions;
  while (begin < end) {
    // The outermost dim of which the range holds a whole index from here on; a part of one index when there is none.
    std::size_t dim = 0;
    while (dim < shape.size() && (begin % stride(shape, dim) != 0 || end - begin < stride(shape, dim))) ++dim;
    Region region{Dims(shape.size(), 0), Dims(shape.size(), 1)};
    std::int64_t rest = begin;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      region.offset[d] = rest / stride(shape, d);
      rest %= stride(shape, d);
      if (d > dim) region.size[d] = shape[d];
    }
    std::int64_t taken = 1;
    if (dim < shape.size()) {
      const std::int64_t step = stride(shape, dim);
      region.size[dim] = std::min((end - begin) / step, shape[dim] - region.offset[dim]);
      taken = region.size[dim] * step;
    }
    regions.push_back(region);
    begin += taken;
  }
  return regions;
}

void for_each_run(const Region& source, const Region& target, const Region& common,
                  const std::function<void(const Run&)>& body) {
  const std::size_t joined = first_joined_dim(source, target, common);
  std::int64_t count = 1;
  for (std::size_t d = joined; d < common.size.size(); ++d) count *= common.size[d];
  Dims index = common.offset;
  do {
    body({place_in(source, index), place_in(target, index), count});
  } while (advance(index, common, joined));
}

}  // namespace twinpod::store
