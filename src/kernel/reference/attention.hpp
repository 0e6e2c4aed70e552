// Causal attention, plainly: one query at a time, in double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernel/attention.hpp"
#include "kernel/reference/dropout.hpp"
#include "kernel/reference/element.hpp"

namespace twinpod::kernel::reference {

// Where the parts of a token's row stand.
struct RowsOf {
  std::int64_t stride, keys, values;
};
inline RowsOf rows_of(const AttentionShape& shape) {
  const std::int64_t d = shape.head_dim;
  const std::int64_t keys = shape.heads * d;
  const std::int64_t values = keys + shape.kv_heads * d;
  return {values + shape.kv_heads * d, keys, values};
}

template <typename T>
double dot(int count, const T* a, const T* b) {
  double sum = 0;
  for (int i = 0; i < count; ++i) sum += static_cast<double>(get(a[i])) * static_cast<double>(get(b[i]));
  return sum;
}

template <typename T>
void attend(const AttentionShape& shape, const T* sequence, std::int64_t query, int head, T* out, Sum<T>& log_sum,
            const Dropout& dropout) {
  const RowsOf rows = rows_of(shape);
  const int d = shape.head_dim, kv = head / (shape.heads / shape.kv_heads);
  const T* q = sequence + query * rows.stride + head * d;
  const T* keys = sequence + rows.keys + kv * d;
  const T* values = sequence + rows.values + kv * d;
  std::vector<double> scores(static_cast<std::size_t>(query + 1));
  for (std::int64_t j = 0; j <= query; ++j)
    scores[static_cast<std::size_t>(j)] = dot(d, q, keys + j * rows.stride) / std::sqrt(d);
  const double maximum = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const double score : scores) sum += std::exp(score - maximum);
  log_sum = static_cast<Sum<T>>(maximum + std::log(sum));
  for (std::int64_t j = 0; j <= query; ++j) {
    double& share = scores[static_cast<std::size_t>(j)];
    share = std::exp(share - maximum) / sum * dropout_factor<double>(dropout, query, j);
  }
  for (int e = 0; e < d; ++e) {
    double value = 0;
    for (std::int64_t j = 0; j <= query; ++j)
      value += scores[static_cast<std::size_t>(j)] * static_cast<double>(get(values[j * rows.stride + e]));
    put(out[e], static_cast<Sum<T>>(value));
  }
}

// Of a head of a sequence: its queries are the rows.
inline Dropout dropout_of_head(const AttentionShape& shape, Dropout dropout, std::int64_t sequence, int head) {
  dropout.first_row += sequence * shape.sequence * dropout.stride + head;
  return dropout;
}

template <typename T>
void attention(const AttentionShape& shape, const T* qkv, T* out, Sum<T>* log_sums, void* /*workspace*/,
               const Dropout& dropout) {
  const RowsOf rows = rows_of(shape);
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    for (int head = 0; head < shape.heads; ++head) {
      for (std::int64_t i = 0; i < shape.sequence; ++i) {
        attend(shape, qkv + b * shape.sequence * rows.stride, i, head,
               out + ((b * shape.sequence + i) * shape.heads + head) * shape.head_dim,
               log_sums[(b * shape.heads + head) * shape.sequence + i], dropout_of_head(shape, dropout, b, head));
      }
    }
  }
}

// Gradients through one query: into dq, and added to those of all keys and values before it. `sequence` is qkv, d its
// gradient, both of one sequence; out and dout are of the query and head.
template <typename T>
void attend_backward(const AttentionShape& shape, const T* sequence, std::int64_t query, int head, const T* out,
                     Sum<T> log_sum, const T* dout, double* gradients, const Dropout& dropout) {
  const RowsOf rows = rows_of(shape);
  const int d = shape.head_dim, kv = head / (shape.heads / shape.kv_heads);
  const double scale = 1 / std::sqrt(d), delta = dot(d, dout, out);
  const std::int64_t q = query * rows.stride + head * d;
  for (std::int64_t j = 0; j <= query; ++j) {
    const std::int64_t key = j * rows.stride + rows.keys + kv * d, value = j * rows.stride + rows.values + kv * d;
    const double p = std::exp(dot(d, sequence + q, sequence + key) * scale - static_cast<double>(log_sum));
    const double factor = dropout_factor<double>(dropout, query, j);
    const double dscore = p * (dot(d, dout, sequence + value) * factor - delta) * scale;
    for (int e = 0; e < d; ++e) {
      gradients[value + e] += p * factor * static_cast<double>(get(dout[e]));
      gradients[q + e] += dscore * static_cast<double>(get(sequence[key + e]));
      gradients[key + e] += dscore * static_cast<double>(get(sequence[q + e]));
    }
  }
}

template <typename T>
void attention_backward(const AttentionShape& shape, const T* qkv, const T* out, const Sum<T>* log_sums, const T* dout,
                        T* dqkv, void* /*workspace*/, const Dropout& dropout) {
  const std::int64_t size = shape.sequence * rows_of(shape).stride;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    std::vector<double> gradients(static_cast<std::size_t>(size));
    for (int head = 0; head < shape.heads; ++head) {
      for (std::int64_t i = 0; i < shape.sequence; ++i) {
        const std::int64_t at = ((b * shape.sequence + i) * shape.heads + head) * shape.head_dim;
        attend_backward(shape, qkv + b * size, i, head, out + at,
                        log_sums[(b * shape.heads + head) * shape.sequence + i], dout + at, gradients.data(),
                        dropout_of_head(shape, dropout, b, head));
      }
    }
    for (std::int64_t at = 0; at < size; ++at)
      put(dqkv[b * size + at], static_cast<Sum<T>>(gradients[static_cast<std::size_t>(at)]));
  }
}

template <typename T>
void causal_softmax(std::int64_t matrices, std::int64_t sequence, double scale, T* scores) {
  for (std::int64_t row = 0; row < matrices * sequence; ++row, scores += sequence) {
    const std::int64_t seen = row % sequence + 1;
    const auto factor = static_cast<Sum<T>>(scale);
    Sum<T> maximum = get(scores[0]) * factor, sum = 0;
    for (std::int64_t j = 1; j < seen; ++j) maximum = std::max(maximum, get(scores[j]) * factor);
    for (std::int64_t j = 0; j < seen; ++j) sum += std::exp(get(scores[j]) * factor - maximum);
    for (std::int64_t j = 0; j < sequence; ++j)
      put(scores[j], j < seen ? std::exp(get(scores[j]) * factor - maximum) / sum : 0);
  }
}

template <typename T>
void causal_softmax_backward(std::int64_t matrices, std::int64_t sequence, double scale, const T* shares, T* d) {
  for (std::int64_t row = 0; row < matrices * sequence; ++row, shares += sequence, d += sequence) {
    const std::int64_t seen = row % sequence + 1;
    Sum<T> sum = 0;
    for (std::int64_t j = 0; j < seen; ++j) sum += get(shares[j]) * get(d[j]);
    for (std::int64_t j = 0; j < sequence; ++j)
      put(d[j], j < seen ? get(shares[j]) * (get(d[j]) - sum) * static_cast<Sum<T>>(scale) : 0);
  }
}

}  // namespace twinpod::kernel::reference
