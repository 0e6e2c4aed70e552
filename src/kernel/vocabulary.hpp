// Both ends of a model: looking up tokens, and the loss. Each rank of a tensor-parallel group holds a part of the
// vocabulary: rows first .. first + count of the table.
#pragma once

#include <cstdint>

#include "kernel/dropout.hpp"
#include "kernel/real.hpp"

namespace twinpod::kernel {

struct Vocabulary {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// out[row] = table[token - first] + positions[row % sequence]; tokens of other ranks give zeros from the table.
// positions may be null (`sequence` is then not used). Dropout is of the sum; it may be summed over ranks behind it.
template <typename T>
void look_up(std::int64_t rows, std::int64_t width, const std::int32_t* tokens, const Vocabulary& part, const T* table,
             const T* positions, std::int64_t sequence, T* out, const Dropout& dropout = {});

// dtable and dpositions (may be null) are added to, in the order of the rows.
template <typename T>
void look_up_backward(std::int64_t rows, std::int64_t width, const std::int32_t* tokens, const Vocabulary& part,
                      const T* dout, Sum<T>* dtable, Sum<T>* dpositions, std::int64_t sequence,
                      const Dropout& dropout = {});

// Softmax and cross-entropy in three passes, so that ranks can agree on each row's maximum and sum in between:
//   row_maxima -> all-reduce max -> row_sums -> all-reduce sum -> loss_backward
template <typename T>
void row_maxima(std::int64_t rows, std::int64_t width, const T* logits, Sum<T>* maxima);
// sums[row] = sum of exp(logit - maximum); targets[row] = logit of the label, or 0 where the label is another rank's.
template <typename T>
void row_sums(std::int64_t rows, const Vocabulary& part, const T* logits, const std::int32_t* labels,
              const Sum<T>* maxima, Sum<T>* sums, Sum<T>* targets);
// Logits become their gradients: (exp(logit - maximum) / sum - [label]) * scale. In place.
template <typename T>
void loss_backward(std::int64_t rows, const Vocabulary& part, T* logits, const std::int32_t* labels,
                   const Sum<T>* maxima, const Sum<T>* sums, double scale);
// One rank holds the whole vocabulary: all three in as few passes as possible. losses[row] = -log p(label).
template <typename T>
void loss_and_backward(std::int64_t rows, std::int64_t width, T* logits, const std::int32_t* labels, Sum<T>* losses,
                       double scale);

// The same in plain passes, with copies: probabilities[i] = exp(logit - maximum) / sum, and behind that
// gradients = (probability - [label]) * scale.
template <typename T>
void probabilities_of(std::int64_t rows, std::int64_t width, const T* logits, const Sum<T>* maxima, const Sum<T>* sums,
                      T* probabilities);
template <typename T>
void gradients_of_probabilities(std::int64_t rows, const Vocabulary& part, const T* probabilities,
                                const std::int32_t* labels, double scale, T* gradients);

}  // namespace twinpod::kernel
