#include <gtest/gtest.h>

#include "spec/read.hpp"
#include "spec/test_catalog.hpp"

namespace twinpod::spec {
namespace {

Result<Job> read(const std::string& text) {
  const TestCatalog files;
  return read_job_text("model: tiny\ncluster: pod\n" + text, "job.yaml", files.catalog());
}

std::string refusal(const std::string& text) {
  const Result<Job> job = read(text);
  return job ? "accepted" : to_string(job.error());
}

TEST(ReadCheckpoint, NothingIsSavedUnlessSomebodySaysWhere) {
  const Result<Job> job = read("");
  ASSERT_TRUE(job);
  EXPECT_TRUE(job->checkpoint.store.empty());
}

TEST(ReadCheckpoint, AFolderIsASharedTier) {
  const Result<Job> job = read("checkpoint: {every: 20, store: runs/a, keep: 3, on_error: stop}");
  ASSERT_TRUE(job) << to_string(job.error());
  EXPECT_EQ(job->checkpoint.every, 20);
  EXPECT_EQ(job->checkpoint.keep, 3);
  EXPECT_EQ(job->checkpoint.on_error, OnError::stop);
  ASSERT_EQ(job->checkpoint.store.size(), 1U);
  EXPECT_EQ(job->checkpoint.store[0].kind, TierKind::shared);
  EXPECT_EQ(job->checkpoint.store[0].path, "runs/a");
}

TEST(ReadCheckpoint, TiersComeInTheirOrder) {
  const Result<Job> job = read(
      "checkpoint:\n  store:\n    - {tier: memory, keep: 1}\n    - {tier: local, path: /x, every: 5}\n"
      "    - {tier: object, path: 's3://bucket/a'}\n");
  ASSERT_TRUE(job) << to_string(job.error());
  ASSERT_EQ(job->checkpoint.store.size(), 3U);
  EXPECT_EQ(job->checkpoint.store[0].kind, TierKind::memory);
  EXPECT_EQ(job->checkpoint.store[1].every, 5);
  EXPECT_EQ(job->checkpoint.store[2].path, "s3://bucket/a");
}

TEST(ReadCheckpoint, WhatIsWrongIsNamedWithItsPlace) {
  EXPECT_NE(refusal("checkpoint: {every: 20}").find("job.yaml:3:14: checkpoint has `every`, but no `store`"),
            std::string::npos)
      << refusal("checkpoint: {every: 20}");
  EXPECT_NE(refusal("checkpoint: {store: []}").find("expected a folder or a list of tiers"), std::string::npos);
  EXPECT_NE(refusal("checkpoint: {store: [{tier: lokal, path: x}]}").find("did you mean `local`?"), std::string::npos);
  EXPECT_NE(refusal("checkpoint: {store: [{tier: local}]}").find("path"), std::string::npos);
  EXPECT_NE(refusal("checkpoint: {store: [{tier: peer, path: x}]}").find("memory of a peer has no path"),
            std::string::npos);
  EXPECT_NE(refusal("checkpoint: {stor: x}").find("did you mean `store`?"), std::string::npos);
}

}  // namespace
}  // namespace twinpod::spec
