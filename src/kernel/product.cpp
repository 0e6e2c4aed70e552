#include "kernel/product.hpp"

#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.hpp>

#include "core/signals.hpp"
#include "kernel/library.hpp"

// Of the library that oneDNN takes its threads from; clang has no header for it.
extern "C" {
void omp_set_num_threads(int threads);
void GOMP_parallel(void (*body)(void*), void* argument, unsigned threads, unsigned flags);  // NOLINT: their names
}

namespace twinpod::kernel {

struct Product::State {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul matmul;
  dnnl::memory a, b, c;
};

void set_threads(int threads) {
  omp_set_num_threads(threads);
  // They stay, and oneDNN's loops find them.
  if (threads > 1) GOMP_parallel([](void*) { own_signal_stack(); }, nullptr, static_cast<unsigned>(threads), 0);
}

Result<Product> make_product(const ProductShape& shape) {
  using Tag = dnnl::memory::format_tag;
  const bool bf16 = shape.precision == spec::Precision::bf16;
  if ((!bf16 && shape.precision != spec::Precision::fp32) || shape.m < 1 || shape.n < 1 || shape.k < 1) {
    return input_error(
        fmt::format("no product of {} x {} x {}: expected sizes from 1 on, fp32 or bf16", shape.m, shape.n, shape.k));
  }
  const dnnl::memory::data_type type = bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  ask_for_tiles();
  // The library tells of what it cannot do by exceptions; they end here.
  try {
    auto state = std::make_shared<Product::State>();
    const dnnl::memory::desc a({shape.m, shape.k}, type, Tag::ab);
    const dnnl::memory::desc b({shape.k, shape.n}, type, Tag::ab);
    const dnnl::memory::desc c({shape.m, shape.n}, type, Tag::ab);
    state->matmul = make_matmul(state->engine, a, b, c, {});
    state->a = dnnl::memory(a, state->engine, nullptr);
    state->b = dnnl::memory(b, state->engine, nullptr);
    state->c = dnnl::memory(c, state->engine, nullptr);
    return Product(std::move(state));
  } catch (const dnnl::error& error) {
    return infeasible(fmt::format("no {} product of {} x {} x {}: {}", bf16 ? "bf16" : "fp32", shape.m, shape.n,
                                  shape.k, error.what()),
                      bf16 ? "this processor may not have bf16; fp32 works everywhere" : "");
  }
}

void multiply(const Product& product, const void* a, const void* b, void* c) {
  own_signal_stack();
  Product::State& state = *product.state_;
  state.a.set_data_handle(const_cast<void*>(a));  // NOLINT: it is only read
  state.b.set_data_handle(const_cast<void*>(b));  // NOLINT: it is only read
  state.c.set_data_handle(c);
  state.matmul.execute(state.stream, {{DNNL_ARG_SRC, state.a}, {DNNL_ARG_WEIGHTS, state.b}, {DNNL_ARG_DST, state.c}});
  state.stream.wait();
}

}  // namespace twinpod::kernel
