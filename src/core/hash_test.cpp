#include "core/hash.hpp"

#include <gtest/gtest.h>

namespace twinpod {
namespace {

// The first three are among the test vectors that come with the algorithm.
TEST(Hash, PublishedVectorsComeOut) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325U);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cU);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8U);
}

TEST(Hash, BytesAboveAsciiCountAsUnsigned) { EXPECT_EQ(fnv1a("\xff"), (kFnvOffset ^ 0xffU) * kFnvPrime); }

TEST(Hash, GoesOnWhereAnotherEnded) { EXPECT_EQ(fnv1a("bar", fnv1a("foo")), fnv1a("foobar")); }

}  // namespace
}  // namespace twinpod
