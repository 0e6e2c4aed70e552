// oneDNN, as product.cpp and gemm.cpp share it; no other file knows the library. 2.6 is on Debian 12, 3.x on newer
// systems.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace twinpod::kernel {

// Whether the processor's tiles (AMX) can be used. REQUIRES: called before anything else of the library.
bool ask_for_tiles();

dnnl::matmul make_matmul(const dnnl::engine& engine, const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                         const dnnl::memory::desc& c, const dnnl::primitive_attr& attributes);

}  // namespace twinpod::kernel
