#include "spec/read.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "spec/test_catalog.hpp"

namespace twinpod::spec {
namespace {

Request names() {
  Request request;
  request.model = "tiny";
  request.cluster = "pod";
  return request;
}

TEST(Read, NamesFromTheCommandLineMakeAJob) {
  const TestCatalog files;
  Request request = names();
  request.sets = {"layout.tp=8", "training.tokens=300e9", "layout.tp=4"};
  const Result<Job> job = read_job(request, files.catalog());
  ASSERT_TRUE(job.has_value()) << to_string(job.error());
  EXPECT_EQ(job->layout.tp, 4) << "later ones win";
  EXPECT_EQ(job->training.tokens, 300e9);
}

TEST(Read, FileIsChangedBySettingsAndNames) {
  const TestCatalog files;
  Request request;
  request.file = files.write("job.yaml", "model: tiny\ncluster: nowhere\nlayout: {tp: 2, pp: 2}\n");
  request.cluster = "pod";
  request.sets = {"layout.tp=8", "model.layers=6", "cluster.device.memory=96 GB"};
  const Result<Job> job = read_job(request, files.catalog());
  ASSERT_TRUE(job.has_value()) << to_string(job.error());
  EXPECT_EQ(job->layout.tp, 8);
  EXPECT_EQ(job->layout.pp, 2);
  EXPECT_EQ(job->model.layers, 6);
  EXPECT_EQ(job->cluster.device.memory_bytes, 96e9);
}

TEST(Read, EmptyFileIsAJobToBeFilledIn) {
  const TestCatalog files;
  Request request = names();
  request.file = files.write("job.yaml", "# nothing yet\n");
  EXPECT_TRUE(read_job(request, files.catalog()).has_value());
}

TEST(Read, ErrorsOfOptionsNameTheOption) {
  const TestCatalog files;
  Request request = names();
  request.sets = {"layout.tp=0"};
  EXPECT_EQ(to_string(read_job(request, files.catalog()).error()),
            "--set layout.tp=0:1:1: tp is `0`; expected a whole number from 1 to 65536");
  request.sets = {Setting("layout.tp=0", "--tp 0")};
  EXPECT_EQ(read_job(request, files.catalog()).error().file, "--tp 0");
  request.sets = {"layuot.tp=1"};
  EXPECT_EQ(read_job(request, files.catalog()).error().hint, "did you mean `layout`?");
}

TEST(Read, ErrorsOfNamesNameWhatWasTyped) {
  const TestCatalog files;
  Request request = names();
  request.model = "tinny";
  EXPECT_EQ(read_job(request, files.catalog()).error().file, "tinny");
  request = names();
  request.cluster = "pdo";
  EXPECT_EQ(read_job(request, files.catalog()).error().file, "--on pdo");
  EXPECT_EQ(read_job(Request{}, files.catalog()).error().file, "command line");
}

TEST(Read, MissingFileIsNamed) {
  const TestCatalog files;
  Request request;
  request.file = files.folder() + "/nowhere.yaml";
  EXPECT_EQ(read_job(request, files.catalog()).error().file, request.file);
}

TEST(Read, PathFromTheCommandLineStartsAtTheCurrentFolder) {
  const TestCatalog files;
  Request request = names();
  request.model = files.write("m/config.json",
                              R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 9})");
  EXPECT_EQ(read_job(request, files.catalog())->model.layers, 2);
}

TEST(Read, DefaultStackOfEveryDeviceIsInTheCatalog) {
  const Catalog catalog(TWINPOD_CATALOG_DIR);
  for (const std::string& name : catalog.names(Shelf::devices)) {
    const Device device = *catalog.device(name);
    EXPECT_TRUE(catalog.stack(default_stack(device), device.family).has_value()) << name;
  }
}

TEST(Read, ExamplesAreGoodJobs) {
  const Catalog catalog(TWINPOD_CATALOG_DIR);
  int examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TWINPOD_SOURCE_DIR "/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    Request request;
    request.file = entry.path().string();
    request.no_cluster = {"cluster=dgx-superpod-a100-140"};  // those for `train` name none
    const Result<Job> job = read_job(request, catalog);
    EXPECT_TRUE(job.has_value()) << to_string(job.error());
    ++examples;
  }
  EXPECT_GE(examples, 5);
}

}  // namespace
}  // namespace twinpod::spec
