#include "kernel/processor.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace twinpod::kernel {
namespace {

TEST(Processor, TakesTheInstructionsThatItIsTold) {
  const Instructions best = instructions();
  use_instructions(Instructions::scalar);
  EXPECT_EQ(instructions(), Instructions::scalar);
  EXPECT_EQ(bf16_products(), Bf16Products::widened);
  use_instructions(best);
  EXPECT_EQ(name_of(Instructions::avx512), "avx512");
}

#ifdef __x86_64__
TEST(Processor, DenormalsBecomeZero) {
  // In a thread of its own: the other tests keep theirs.
  std::thread([] {
    volatile float small = 1e-38F;
    EXPECT_NE(small * 0.01F, 0);
    flush_denormals();
    EXPECT_EQ(small * 0.01F, 0);
    volatile float denormal = 1e-40F;
    EXPECT_EQ(denormal * 1e10F, 0);
  }).join();
}
#endif

}  // namespace
}  // namespace twinpod::kernel
