// Names that would like to be more than names. The reader of jobs refuses most of them; here they are in a job already.
#include <gtest/gtest.h>

#include "core/quote.hpp"
#include "emit/test_jobs.hpp"

namespace twinpod::emit {
namespace {

const std::vector<std::string>& hostile_names() {
  static const std::vector<std::string> names = {"meta\ntouch x;:",
                                                 "a\rtouch x",
                                                 "a\r\ntouch x",
                                                 "$(touch x)",
                                                 "`touch x`",
                                                 "'; touch x; '",
                                                 "\"; touch x; \"",
                                                 "a\nTWINPOD_LAUNCH\ntouch x",
                                                 "a\nTWINPOD_CONFIG\ntouch x",
                                                 "a\nTWINPOD_NODE\ntouch x",
                                                 "a\n#SBATCH --wrap=touch",
                                                 "SBATCH --wrap=touch",
                                                 "\"\"\"\nimport os\nos.system('touch x')\n\"\"\"",
                                                 "-*- coding: utf-7 -*- +AAo-import os",
                                                 "a\\",
                                                 "a\\\nb",
                                                 "#{x} ${x} %s {0} {}",
                                                 std::string("a\0b", 3),
                                                 "a\xe2\x80\xa8"
                                                 "b\xe2\x80\xa9"
                                                 "c\xc2\x85"
                                                 "d",
                                                 "\xef\xbb\xbf"
                                                 "a",
                                                 "a\xe2\x80\xaegpj.sh",
                                                 "\x1b[2J\x1b]0;x\x07",
                                                 "a\xc2\x9b"
                                                 "2J",
                                                 "\xff\xfe\xc0\xaf",
                                                 "- a: b, c: {d",
                                                 "&a *a !!python/object/apply:os.system [touch x]",
                                                 "%YAML 1.1\n---\n",
                                                 " leading and trailing ",
                                                 "null",
                                                 "1e5",
                                                 "~",
                                                 "a: b # c",
                                                 "]]><script>alert(1)</script>",
                                                 "=cmd|'/c calc'!A0",
                                                 std::string(100'000, 'x')};
  return names;
}

// What the file does: all but its comments. A directive of Slurm counts as something that is done.
std::string deeds(const std::string& text) {
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#") || line.starts_with("#SBATCH")) kept += line + "\n";
  }
  return kept;
}

std::string emitted_with(const spec::Job& job, const std::string& launch) {
  const Result<std::string> text = emit(job, *launch_named(launch), &catalog());
  EXPECT_TRUE(text) << (text ? "" : to_string(text.error()));
  EXPECT_EQ(printable(text.value_or("")), text.value_or(""));  // Python ends lines where a shell does not
  return text.value_or("");
}

class EachLaunch : public testing::TestWithParam<std::string> {
 protected:
  static spec::Job job() {
    return job_of(
        "model: llama3-8b\ncluster: dgx-h100\nlayout: {zero: 2}\nname: plain\ntraining: {global_batch: 64}\n");
  }
};

INSTANTIATE_TEST_SUITE_P(Emit, EachLaunch,
                         testing::Values("megatron", "torchtitan", "nemo", "slurm", "slurm:torchtitan", "slurm:nemo"));

TEST_P(EachLaunch, DoesTheSameWhateverTheJobIsCalled) {
  spec::Job job = EachLaunch::job();
  const std::string plain = deeds(emitted_with(job, GetParam()));
  for (const std::string& name : hostile_names()) {
    job.name = name;
    EXPECT_EQ(deeds(emitted_with(job, GetParam())), plain) << name;
  }
}

TEST_P(EachLaunch, DoesTheSameWhateverTheModelIsCalled) {
  spec::Job job = EachLaunch::job();
  job.name = "";
  const std::string plain = deeds(emitted_with(job, GetParam()));
  for (const std::string& name : hostile_names()) {
    job.model.name = name;
    EXPECT_EQ(deeds(emitted_with(job, GetParam())), plain) << name;
  }
}

TEST(Emit, NoNameGivesARecipeAnotherEncoding) {
  const std::string text = emitted(
      "model: llama3-8b\ncluster: dgx-h100\nlayout: {zero: 2}\nname: 'coding: utf-7'\ntraining: {global_batch: 64}\n",
      "nemo");
  EXPECT_TRUE(text.starts_with("#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n"));
}

// As the reader has it: the file names what is written in it.
spec::Node parsed(const std::string& text) {
  const Result<spec::Node> root = spec::parse_yaml(text, "emitted.yaml");
  EXPECT_TRUE(root) << (root ? "" : to_string(root.error()));
  return root.value_or(spec::Node{});
}

const std::string& scalar_at(const spec::Node& root, std::initializer_list<std::string_view> path) {
  static const std::string nothing;
  const spec::Node* node = &root;
  for (const std::string_view key : path) node = node == nullptr ? nullptr : node->find(key);
  EXPECT_NE(node, nullptr);
  return node == nullptr ? nothing : node->scalar;
}

bool is_utf8(const std::string& name) { return name.find('\xff') == std::string::npos; }

TEST(JobFile, HostileNamesComeBackAsTheyWere) {
  spec::Job job = job_of("model: llama3-8b\ncluster: dgx-h100\nlayout: {zero: 2}\ntraining: {global_batch: 64}\n");
  job.model.entry = job.cluster.entry = job.cluster.device.entry = "";
  job.layout.schedule = spec::Schedule::custom;
  for (const std::string& name : hostile_names()) {
    if (!is_utf8(name)) continue;
    job.name = job.model.name = job.model.source.text = job.cluster.name = job.cluster.node = job.stack.name =
        job.cluster.device.name = job.cluster.device.vendor = job.cluster.price_basis = job.schedule_file = name;
    job.cluster.device.aliases = {name};
    const Result<std::string> text = emit(job, *launch_named("twinpod"));
    ASSERT_TRUE(text);
    const spec::Node root = parsed(*text);
    EXPECT_EQ(scalar_at(root, {"name"}), name);
    EXPECT_EQ(scalar_at(root, {"stack"}), name);
    EXPECT_EQ(scalar_at(root, {"model", "name"}), name);
    EXPECT_EQ(scalar_at(root, {"model", "source"}), name);
    EXPECT_EQ(scalar_at(root, {"cluster", "name"}), name);
    EXPECT_EQ(scalar_at(root, {"cluster", "node"}), name);
    EXPECT_EQ(scalar_at(root, {"cluster", "device", "vendor"}), name);
    EXPECT_EQ(scalar_at(root, {"cluster", "price", "basis"}), name);
    EXPECT_EQ(scalar_at(root, {"layout", "schedule", "file"}), name);
  }
}

}  // namespace
}  // namespace twinpod::emit
