// Matrix products on this machine, by oneDNN. The only place that knows the library.
//
//     set_threads(2);
//     Result<Product> product = make_product({.m = 512, .n = 512, .k = 1024, .precision = spec::Precision::bf16});
//     multiply(*product, a, b, c);                       // c = a b, row by row in memory, all of the same type
//
// A Product is made for the number of threads that was set before. Threads that compute stay for the next product.
#pragma once

#include <cstdint>
#include <memory>

#include "core/error.hpp"
#include "spec/cluster.hpp"

namespace twinpod::kernel {

// (m x k)(k x n)
struct ProductShape {
  std::int64_t m = 1;
  std::int64_t n = 1;
  std::int64_t k = 1;
  spec::Precision precision = spec::Precision::fp32;  // fp32 or bf16
};

class Product {
 public:
  struct State;
  explicit Product(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  friend void multiply(const Product& product, const void* a, const void* b, void* c);
  std::shared_ptr<State> state_;
};

// Of this thread, from the next make_product() on. REQUIRES: 1 or more.
void set_threads(int threads);

// Refuses what the library or the processor cannot do.
Result<Product> make_product(const ProductShape& shape);

// REQUIRES: buffers as long as the shape says; c overlaps with neither.
void multiply(const Product& product, const void* a, const void* b, void* c);

}  // namespace twinpod::kernel
