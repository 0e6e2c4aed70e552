// Looking up tokens, softmax and cross-entropy over vectors.
#pragma once

#include <cstdint>

#include "kernel/vector/dropout.hpp"
#include "kernel/vector/vec.hpp"
#include "kernel/vocabulary.hpp"

namespace twinpod::kernel::vector {

template <typename V>
TWINPOD_INLINE bool holds(const Vocabulary& part, std::int32_t token) {
  return token >= part.first && token < part.first + part.count;
}

template <typename V, typename T>
void look_up(std::int64_t rows, std::int64_t width, const std::int32_t* tokens, const Vocabulary& part, const T* table,
             const T* positions, std::int64_t sequence, T* out, const Dropout& dropout) {
  for (std::int64_t i = 0; i < rows; ++i, out += width) {
    const T* row = holds<V>(part, tokens[i]) ? table + (tokens[i] - part.first) * width : nullptr;
    const T* position = positions == nullptr ? nullptr : positions + i % sequence * width;
    each<V>(width, [&](std::int64_t j, auto lanes) {
      V value = row == nullptr ? V::zero() : V::load(row + j, lanes);
      if (position != nullptr) value = value + V::load(position + j, lanes);
      value.store(out + j, lanes);
    });
    if (dropout.on()) drop_row<V>(dropout_row(dropout, dropout.first_row + i * dropout.stride), width, out, out);
  }
}

// What was dropped has no gradient. With no dropout, `bits` is null.
template <typename V, typename T>
TWINPOD_INLINE void add_to(std::int64_t width, const T* x, const DropoutRow* bits, float* sums) {
  each<V>(width, [&](std::int64_t j, auto lanes) {
    V d = V::load(x + j, lanes);
    if (bits != nullptr) d = d * dropout_factors<V>(*bits, j);
    (V::load(sums + j, lanes) + d).store(sums + j, lanes);
  });
}

template <typename V, typename T>
void look_up_backward(std::int64_t rows, std::int64_t width, const std::int32_t* tokens, const Vocabulary& part,
                      const T* dout, float* dtable, float* dpositions, std::int64_t sequence, const Dropout& dropout) {
  for (std::int64_t i = 0; i < rows; ++i, dout += width) {
    const DropoutRow row = dropout_row(dropout, dropout.first_row + i * dropout.stride);
    const DropoutRow* bits = dropout.on() ? &row : nullptr;
    if (dtable != nullptr && holds<V>(part, tokens[i]))
      add_to<V>(width, dout, bits, dtable + (tokens[i] - part.first) * width);
    if (dpositions != nullptr) add_to<V>(width, dout, bits, dpositions + i % sequence * width);
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

template <typename V, typename T>
void row_sums(std::int64_t rows, const Vocabulary& part, const T* logits, const std::int32_t* labels,
              const float* maxima, float* sums, float* targets) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* row = logits + i * part.count;
    sums[i] = row_sum<V>(part.count, row, maxima[i]);
    targets[i] = holds<V>(part, labels[i]) ? widened<V>(row[labels[i] - part.first]) : 0;
  }
}

// (e^(x - maximum) / sum - [label]) scale, in place.
template <typename V, typename T>
TWINPOD_INLINE void row_backward(const Vocabulary& part, T* row, std::int32_t label, float maximum, float sum,
                                 float scale) {
  const std::int64_t at = label - part.first;
  const bool here = holds<V>(part, label);
  const float share = here ? widened<V>(row[at]) - maximum : 0;
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

// e^(x - maximum) in place, and their sum.
template <typename V>
TWINPOD_INLINE float row_exponentials(std::int64_t width, float* x, float maximum) {
  V total = V::zero();
  each<V>(width, [&](std::int64_t j, auto lanes) {
    const V e = exponential(V::load(x + j, lanes) - V::of(maximum));
    e.store(x + j, lanes);
    total = total + V::only(e, lanes, V::zero());
  });
  return sum(total);
}

// A row of float is overwritten by its exponentials and then scaled: each is computed once. Bf16 would be rounded
// twice.
template <typename V>
TWINPOD_INLINE float row_loss(std::int64_t width, float* row, std::int32_t label, float scale) {
  const Vocabulary whole{.first = 0, .count = width};
  const bool here = holds<V>(whole, label);
  const float maximum = row_maximum<V>(width, row), target = here ? row[label] : 0;
  const float sum = row_exponentials<V>(width, row, maximum);
  const float share = here ? row[label] / sum : 0;
  const V factor = V::of(scale / sum);
  each<V>(width, [&](std::int64_t j, auto lanes) { (V::load(row + j, lanes) * factor).store(row + j, lanes); });
  if (here) row[label] = (share - 1) * scale;
  return __builtin_logf(sum) + maximum - target;
}

template <typename V>
TWINPOD_INLINE float row_loss(std::int64_t width, Bf16* row, std::int32_t label, float scale) {
  const Vocabulary whole{.first = 0, .count = width};
  const float maximum = row_maximum<V>(width, row), sum = row_sum<V>(width, row, maximum);
  const float target = holds<V>(whole, label) ? to_float(row[label]) : 0;
  row_backward<V>(whole, row, label, maximum, sum, scale);
  return __builtin_logf(sum) + maximum - target;
}

template <typename V, typename T>
void loss_and_backward(std::int64_t rows, std::int64_t width, T* logits, const std::int32_t* labels, float* losses,
                       double scale) {
  for (std::int64_t i = 0; i < rows; ++i)
    losses[i] = row_loss<V>(width, logits + i * width, labels[i], static_cast<float>(scale));
}

template <typename V, typename T>
void probabilities_of(std::int64_t rows, std::int64_t width, const T* logits, const float* maxima, const float* sums,
                      T* probabilities) {
  for (std::int64_t i = 0; i < rows; ++i, logits += width, probabilities += width) {
    const V maximum = V::of(maxima[i]), factor = V::of(1 / sums[i]);
    each<V>(width, [&](std::int64_t j, auto lanes) {
      (exponential(V::load(logits + j, lanes) - maximum) * factor).store(probabilities + j, lanes);
    });
  }
}

template <typename V, typename T>
void gradients_of_probabilities(std::int64_t rows, const Vocabulary& part, const T* probabilities,
                                const std::int32_t* labels, double scale, T* gradients) {
  const V factor = V::of(static_cast<float>(scale));
  for (std::int64_t i = 0; i < rows; ++i, probabilities += part.count, gradients += part.count) {
    each<V>(part.count, [&](std::int64_t j, auto lanes) {
      (V::load(probabilities + j, lanes) * factor).store(gradients + j, lanes);
    });
    if (!holds<V>(part, labels[i])) continue;
    const std::int64_t at = labels[i] - part.first;
    ((V::of(widened<V>(probabilities[at])) - V::of(1)) * factor).store(gradients + at, First{1});
  }
}

}  // namespace twinpod::kernel::vector
