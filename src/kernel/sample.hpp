// Numbers as a step has them, for kernels that are timed.
//
//     std::vector<float> a(1024);
//     fill_sample(std::as_writable_bytes(std::span(a)));
//
// Time depends on them: tiles need less power for zeros, or for one number again and again, and multiply those 5 to 15
// % faster than what a step multiplies.
#pragma once

#include <cstddef>
#include <span>

namespace twinpod::kernel {

// Of either sign, from 2^-7 to 2^-5 in size, whether they are read as floats or as Bf16; always the same ones. What is
// left behind the last eight bytes stays as it is.
void fill_sample(std::span<std::byte> memory);

}  // namespace twinpod::kernel
