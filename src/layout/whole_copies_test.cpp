#include "layout/whole_copies.hpp"

#include <gtest/gtest.h>

#include "layout/check.hpp"
#include "spec/read.hpp"

namespace twinpod::layout {
namespace {

spec::Job read(std::vector<spec::Setting> sets) {
  spec::Request request;
  request.model = "gpt3-175b";
  request.cluster = "dgx-superpod-a100-140";
  request.sets = std::move(sets);
  const Result<spec::Job> job = spec::read_job(request, spec::Catalog(TWINPOD_CATALOG_DIR));
  EXPECT_TRUE(job) << job.error().message;
  return *job;
}

TEST(WholeCopies, FillTheClusterAsFarAsTheyGo) {
  const spec::Job job = read({{"layout.tp=8"}, {"layout.pp=8"}});
  ASSERT_FALSE(check(job));
  const spec::Job made = with_whole_copies(job);
  EXPECT_TRUE(check(made));
  EXPECT_EQ(made.cluster.devices, 1088);
  EXPECT_EQ(made.idle_devices, 32);
}

TEST(WholeCopies, ShareABatchThatIsWritten) {
  const spec::Job made = with_whole_copies(read({{"layout.tp=8"}, {"layout.pp=8"}, {"training.global_batch=1536"}}));
  EXPECT_EQ(made.cluster.devices, 1024);
  EXPECT_EQ(made.training.global_batch, 1536);
}

TEST(WholeCopies, AreAsManyAsNamed) {
  const spec::Job made = with_whole_copies(read({{"layout.tp=8"}, {"layout.pp=8"}, {"layout.dp=4"}}));
  EXPECT_TRUE(check(made));
  EXPECT_EQ(made.cluster.devices, 256);
}

TEST(WholeCopies, LeaveWhatIsNamedOrFits) {
  EXPECT_EQ(with_whole_copies(read({{"layout.tp=8"}, {"layout.pp=8"}, {"devices=1120"}})).cluster.devices, 1120);
  EXPECT_EQ(with_whole_copies(read({{"layout.tp=8"}, {"layout.pp=7"}})).cluster.devices, 1120);
  // No number of copies makes 5 tensor ranks divide 96 heads.
  EXPECT_EQ(with_whole_copies(read({{"layout.tp=5"}, {"layout.pp=3"}})).idle_devices, 0);
}

TEST(WholeCopies, LeaveNoMoreThanAQuarterIdle) {
  // 1,000 sequences over at most 17 copies: 10 would share them, and 480 devices would idle.
  const spec::Job made = with_whole_copies(read({{"layout.tp=8"}, {"layout.pp=8"}, {"training.global_batch=1000"}}));
  EXPECT_EQ(made.cluster.devices, 1120);
}

}  // namespace
}  // namespace twinpod::layout
