// Looking up tokens, softmax and cross-entropy over vectors.
#pragma once

#include <cstdint>

#include "kernel/vector/vec.hpp"
#include "kernel/vocabulary.hpp"

namespace twinpod::kernel::vector {

template <typename V>
TWINPOD_INLINE bool holds(const Vocabulary& part, std::int32_t token) {
  return token >= part.first && token < part.first + part.count;
}

template <typename V, typename T>
void look_up(std::int64_t rows, std::int64_t width, const std::int32_t* tokens, const Vocabulary& part, const T* table,
             const T* positions, std::int64_t sequence, T* out) {
  for (std::int64_t i = 0; i < rows; ++i, out += width) {
    const T* row = holds<V>(part, tokens[i]) ? table + (tokens[i] - part.first) * width : nullptr;
    const T* position = positions == nullptr ? nullptr : positions + i % sequence * width;
    each<V>(width, [&](std::int64_t j, auto lanes) {
      V value = row == nullptr ? V::zero() : V::load(row + j, lanes);
      if (position != nullptr) value = value + V::load(position + j, lanes);
      value.store(out + j, lanes);
    });
  }
}

template <typename V, typename T>
TWINPOD_INLINE void add_to(std::int64_t width, const T* x, float* sums) {
  each<V>(width, [&](std::int64_t j, auto lanes) {
    (V::load(sums + j, lanes) + V::load(x + j, lanes)).store(sums + j, lanes);
  });
}

template <typename V, typename T>
void look_up_backward(std::int64_t rows, std::int64_t width, const std::int32_t* tokens, const Vocabulary& part,
                      const T* dout, float* dtable, float* dpositions, std::int64_t sequence) {
  for (std::int64_t i = 0; i < rows; ++i, dout += width) {
    if (dtable != nullptr && holds<V>(part, tokens[i]))
      add_to<V>(width, dout, dtable + (tokens[i] - part.first) * width);
    if (dpositions != nullptr) add_to<V>(width, dout, dpositions + i % sequence * width);
  }
}

// Four at a time: one would wait for the one before.
template <typename V, typename T>
TWINPOD_INLINE float row_maximum(std::int64_t width, const T* x) {
  const V least = V::of(-__builtin_inff());
  V m[4] = {least, least, least, least};
  std::int64_t j = 0;
  for (; j + 4 * V::kWidth <= width; j += 4 * V::kWidth) {
    for (int u = 0; u < 4; ++u) m[u] = max(m[u], V::load(x + j + u * V::kWidth));
  }
  each<V>(width - j,
          [&](std::int64_t i, auto lanes) { m[0] = max(m[0], V::only(V::load(x + j + i, lanes), lanes, least)); });
  return largest(max(max(m[0], m[1]), max(m[2], m[3])));
}

template <typename V, typename T>
void row_maxima(std::int64_t rows, std::int64_t width, const T* logits, float* maxima) {
  for (std::int64_t i = 0; i < rows; ++i) maxima[i] = row_maximum<V>(width, logits + i * width);
}

template <typename V, typename T>
TWINPOD_INLINE float row_sum(std::int64_t width, const T* x, float maximum) {
  V total = V::zero(), other = V::zero();
  std::int64_t j = 0;
  for (; j + 2 * V::kWidth <= width; j += 2 * V::kWidth) {
    total = total + exponential(V::load(x + j) - V::of(maximum));
    other = other + exponential(V::load(x + j + V::kWidth) - V::of(maximum));
  }
  each<V>(width - j, [&](std::int64_t i, auto lanes) {
    total = total + V::only(exponential(V::load(x + j + i, lanes) - V::of(maximum)), lanes, V::zero());
  });
  return sum(total + other);
}

template <typename V>
TWINPOD_INLINE float single(float x) {
  return x;
}
template <typename V>
TWINPOD_INLINE float single(Bf16 x) {
  return to_float(x);
}

template <typename V, typename T>
void row_sums(std::int64_t rows, const Vocabulary& part, const T* logits, const std::int32_t* labels,
              const float* maxima, float* sums, float* targets) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* row = logits + i * part.count;
    sums[i] = row_sum<V>(part.count, row, maxima[i]);
    targets[i] = holds<V>(part, labels[i]) ? single<V>(row[labels[i] - part.first]) : 0;
  }
}

// (e^(x - maximum) / sum - [label]) scale, in place.
template <typename V, typename T>
TWINPOD_INLINE void row_backward(const Vocabulary& part, T* row, std::int32_t label, float maximum, float sum,
                                 float scale) {
  const std::int64_t at = label - part.first;
  const bool here = holds<V>(part, label);
  const float share = here ? single<V>(row[at]) - maximum : 0;
  const V factor = V::of(scale / sum), top = V::of(maximum);
  each<V>(part.count, [&](std::int64_t j, auto lanes) {
    (exponential(V::load(row + j, lanes) - top) * factor).store(row + j, lanes);
  });
  if (!here) return;
  const V corrected = (exponential(V::of(share)) * V::of(1 / sum) - V::of(1)) * V::of(scale);
  corrected.store(row + at, First{1});
}

template <typename V, typename T>
void loss_backward(std::int64_t rows, const Vocabulary& part, T* logits, const std::int32_t* labels,
                   const float* maxima, const float* sums, double scale) {
  for (std::int64_t i = 0; i < rows; ++i)
    row_backward<V>(part, logits + i * part.count, labels[i], maxima[i], sums[i], static_cast<float>(scale));
}

template <typename V, typename T>
void loss_and_backward(std::int64_t rows, std::int64_t width, T* logits, const std::int32_t* labels, float* losses,
                       double scale) {
  const Vocabulary whole{.first = 0, .count = width};
  for (std::int64_t i = 0; i < rows; ++i) {
    T* row = logits + i * width;
    const float maximum = row_maximum<V>(width, row), sum = row_sum<V>(width, row, maximum);
    const float target = holds<V>(whole, labels[i]) ? single<V>(row[labels[i]]) : 0;
    losses[i] = __builtin_logf(sum) + maximum - target;
    row_backward<V>(whole, row, labels[i], maximum, sum, static_cast<float>(scale));
  }
}

}  // namespace twinpod::kernel::vector
