// Looking up tokens, softmax and cross-entropy, plainly.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernel/reference/dropout.hpp"
#include "kernel/reference/element.hpp"
#include "kernel/vocabulary.hpp"

namespace twinpod::kernel::reference {

inline bool holds(const Vocabulary& part, std::int32_t token) {
  return token >= part.first && token < part.first + part.count;
}

template <typename T>
void look_up(std::int64_t rows, std::int64_t width, const std::int32_t* tokens, const Vocabulary& part, const T* table,
             const T* positions, std::int64_t sequence, T* out, const Dropout& dropout) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      Sum<T> value = 0;
      if (holds(part, tokens[i])) value += get(table[(tokens[i] - part.first) * width + j]);
      if (positions != nullptr) value += get(positions[i % sequence * width + j]);
      put(out[i * width + j], value * dropout_factor<Sum<T>>(dropout, i, j));
    }
  }
}

template <typename T>
void look_up_backward(std::int64_t rows, std::int64_t width, const std::int32_t* tokens, const Vocabulary& part,
                      const T* dout, Sum<T>* dtable, Sum<T>* dpositions, std::int64_t sequence,
                      const Dropout& dropout) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < width; ++j) {
      const Sum<T> d = get(dout[i * width + j]) * dropout_factor<Sum<T>>(dropout, i, j);
      if (dtable != nullptr && holds(part, tokens[i])) dtable[(tokens[i] - part.first) * width + j] += d;
      if (dpositions != nullptr) dpositions[i % sequence * width + j] += d;
    }
  }
}

template <typename T>
void row_maxima(std::int64_t rows, std::int64_t width, const T* logits, Sum<T>* maxima) {
  for (std::int64_t i = 0; i < rows; ++i) {
    maxima[i] = -std::numeric_limits<Sum<T>>::infinity();
    for (std::int64_t j = 0; j < width; ++j) maxima[i] = std::max(maxima[i], get(logits[i * width + j]));
  }
}

template <typename T>
void row_sums(std::int64_t rows, const Vocabulary& part, const T* logits, const std::int32_t* labels,
              const Sum<T>* maxima, Sum<T>* sums, Sum<T>* targets) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* row = logits + i * part.count;
    sums[i] = 0;
    for (std::int64_t j = 0; j < part.count; ++j) sums[i] += std::exp(get(row[j]) - maxima[i]);
    targets[i] = holds(part, labels[i]) ? get(row[labels[i] - part.first]) : 0;
  }
}

template <typename T>
void loss_backward(std::int64_t rows, const Vocabulary& part, T* logits, const std::int32_t* labels,
                   const Sum<T>* maxima, const Sum<T>* sums, double scale) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < part.count; ++j) {
      T& logit = logits[i * part.count + j];
      const Sum<T> share = std::exp(get(logit) - maxima[i]) / sums[i];
      const Sum<T> wanted = part.first + j == labels[i] ? 1 : 0;
      put(logit, (share - wanted) * static_cast<Sum<T>>(scale));
    }
  }
}

template <typename T>
void loss_and_backward(std::int64_t rows, std::int64_t width, T* logits, const std::int32_t* labels, Sum<T>* losses,
                       double scale) {
  const Vocabulary whole{.first = 0, .count = width};
  for (std::int64_t i = 0; i < rows; ++i) {
    Sum<T> maximum = 0, sum = 0, target = 0;
    reference::row_maxima(1, width, logits + i * width, &maximum);
    reference::row_sums(1, whole, logits + i * width, labels + i, &maximum, &sum, &target);
    losses[i] = std::log(sum) + maximum - target;
    reference::loss_backward(1, whole, logits + i * width, labels + i, &maximum, &sum, scale);
  }
}

template <typename T>
void probabilities_of(std::int64_t rows, std::int64_t width, const T* logits, const Sum<T>* maxima, const Sum<T>* sums,
                      T* probabilities) {
  for (std::int64_t at = 0; at < rows * width; ++at)
    put(probabilities[at], std::exp(get(logits[at]) - maxima[at / width]) / sums[at / width]);
}

template <typename T>
void gradients_of_probabilities(std::int64_t rows, const Vocabulary& part, const T* probabilities,
                                const std::int32_t* labels, double scale, T* gradients) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < part.count; ++j) {
      const Sum<T> wanted = labels[i] == part.first + j ? 1 : 0;
      put(gradients[i * part.count + j],
          (get(probabilities[i * part.count + j]) - wanted) * static_cast<Sum<T>>(scale));
    }
  }
}

}  // namespace twinpod::kernel::reference
