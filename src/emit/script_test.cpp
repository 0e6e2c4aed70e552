// The scripts as bash and Python see them: they parse, say what is missing, and call torchrun with every flag.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "emit/known_names.hpp"
#include "emit/test_jobs.hpp"

namespace twinpod::emit {
namespace {

class Scripts : public testing::Test {
 protected:
  Scripts() {
    std::filesystem::create_directories(folder_);
    // Stands in for torchrun: prints what it was given, and runs the configuration that torchtitan would import.
    write("torchrun",
          "#!/usr/bin/env bash\nprintf '%s\\n' \"$@\"\n"
          "if [[ -f ${PYTHONPATH:-}/twinpod_run.py ]] && command -v python3 >/dev/null; then\n"
          "  python3 mocked.py \"$PYTHONPATH/twinpod_run.py\" run\nfi\n");
    // Runs a function of a Python file whose imports from the engines are made up.
    write("mocked.py",
          "import importlib.abc, importlib.machinery, importlib.util, sys\n"
          "from unittest.mock import MagicMock\n"
          "class Mocked(importlib.abc.MetaPathFinder, importlib.abc.Loader):\n"
          "    def find_spec(self, name, path=None, target=None):\n"
          "        if name.split('.')[0] in ('torch', 'torchtitan', 'megatron'):\n"
          "            return importlib.machinery.ModuleSpec(name, self, is_package=True)\n"
          "    def create_module(self, spec):\n"
          "        module = MagicMock(name=spec.name)\n"
          "        module.__path__ = []\n"
          "        module.distributed_fused_adam_with_cosine_annealing.return_value = MagicMock(), MagicMock()\n"
          "        return module\n"
          "    def exec_module(self, module):\n"
          "        pass\n"
          "sys.meta_path.insert(0, Mocked())\n"
          "spec = importlib.util.spec_from_file_location('launch', sys.argv[1])\n"
          "module = importlib.util.module_from_spec(spec)\n"
          "spec.loader.exec_module(module)\n"
          "config = getattr(module, sys.argv[2])()\n"
          "print('returned', type(config).__name__, config.training.local_batch_size, config.mixed_precision)\n");
    write("srun", "#!/usr/bin/env bash\n\"$@\"\n");
    write("scontrol", "#!/usr/bin/env bash\nprintf 'node1\\nnode2\\n'\n");
    for (const char* name : {"torchrun", "srun", "scontrol"}) {
      std::filesystem::permissions(folder_ / name, std::filesystem::perms::owner_all);
    }
  }
  ~Scripts() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  void write(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }

  // Runs a command of the shell in the folder; its output is in out_.
  int run(const std::string& command) {
    const std::string whole = "cd '" + folder_.string() + "' && PATH=\"$PWD:$PATH\" && " + command + " >out 2>&1";
    const int status = std::system(whole.c_str());
    std::ifstream file(folder_ / "out");
    out_.assign(std::istreambuf_iterator<char>(file), {});
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  bool has_python() { return run("command -v python3") == 0; }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("twinpod_emit_" + std::to_string(getpid()) + "_" +
                                                testing::UnitTest::GetInstance()->current_test_info()->name());
  std::string out_;
};

TEST_F(Scripts, BashParsesAllOfThem) {
  for (const NamedJob& job : mcore_jobs()) {
    for (const char* launch : {"megatron", "slurm", "slurm:nemo"}) {
      write("run.sh", emitted(job.text, launch));
      EXPECT_EQ(run("bash -n run.sh"), 0) << job.name << launch << out_;
    }
  }
  for (const NamedJob& job : torchtitan_jobs()) {
    for (const char* launch : {"torchtitan", "slurm:torchtitan"}) {
      write("run.sh", emitted(job.text, launch));
      EXPECT_EQ(run("bash -n run.sh"), 0) << job.name << launch << out_;
    }
  }
}

TEST_F(Scripts, PythonCompilesAndRunsTheRecipes) {
  if (!has_python()) GTEST_SKIP() << "no python3";
  for (const NamedJob& job : mcore_jobs()) {
    write("recipe.py", emitted(job.text, "nemo"));
    EXPECT_EQ(run("python3 -m py_compile recipe.py"), 0) << job.name << out_;
    EXPECT_EQ(run("DATA_PATH=/data/x TOKENIZER_MODEL=t python3 mocked.py recipe.py recipe"), 0) << job.name << out_;
    EXPECT_NE(out_.find("returned MagicMock"), std::string::npos) << out_;
    EXPECT_NE(out_.find("get_mixed_precision_config()"), std::string::npos) << out_;
  }
}

TEST_F(Scripts, RecipesSayWhatIsMissing) {
  if (!has_python()) GTEST_SKIP() << "no python3";
  write("recipe.py", emitted(mcore_jobs()[1].text, "nemo"));
  EXPECT_EQ(run("env -u DATA_PATH -u TOKENIZER_MODEL python3 mocked.py recipe.py recipe"), 1);
  EXPECT_NE(out_.find("set DATA_PATH:"), std::string::npos) << out_;
  EXPECT_NE(out_.find("set TOKENIZER_MODEL:"), std::string::npos) << out_;
}

TEST_F(Scripts, MegatronSaysWhatIsMissing) {
  write("run.sh", emitted(mcore_jobs()[1].text, "megatron"));
  EXPECT_EQ(run("env -u SLURM_NODEID bash run.sh"), 2);
  for (const char* name :
       {"set MEGATRON_PATH:", "set DATA_PATH:", "set TOKENIZER_MODEL:", "set MASTER_ADDR:", "set NODE_RANK:"}) {
    EXPECT_NE(out_.find(name), std::string::npos) << name;
  }
}

TEST_F(Scripts, MegatronNeedsNoTokenizerForMadeUpData) {
  write("run.sh", emitted(mcore_jobs()[6].text, "megatron"));
  EXPECT_EQ(run("MEGATRON_PATH=/megatron DATA_PATH=mock bash run.sh"), 0) << out_;
  EXPECT_NE(out_.find("NullTokenizer"), std::string::npos);
  EXPECT_EQ(out_.find("--data-path"), std::string::npos);
}

TEST_F(Scripts, MegatronHandsEveryFlagToTheProgram) {
  for (const NamedJob& job : mcore_jobs()) {
    const std::string text = emitted(job.text, "megatron");
    write("run.sh", text);
    ASSERT_EQ(run("MEGATRON_PATH=/megatron DATA_PATH=/data/x TOKENIZER_MODEL=t MASTER_ADDR=h NODE_RANK=0 bash run.sh"),
              0)
        << out_;
    for (const auto& [flag, value] : flags_of(text)) {
      if (flag == "--mock-data") continue;
      EXPECT_NE(out_.find(flag + "\n"), std::string::npos) << job.name << " " << flag;
    }
    EXPECT_NE(out_.find("/megatron/pretrain_gpt.py\n"), std::string::npos);
  }
}

TEST_F(Scripts, TorchtitanSaysWhatIsMissing) {
  write("run.sh", emitted(torchtitan_jobs()[4].text, "torchtitan"));
  EXPECT_EQ(run("bash run.sh"), 2);
  EXPECT_NE(out_.find("set HF_ASSETS:"), std::string::npos);
}

TEST_F(Scripts, TorchtitanImportsItsConfiguration) {
  const bool python = has_python();
  for (const NamedJob& job : torchtitan_jobs()) {
    write("run.sh", emitted(job.text, "torchtitan"));
    ASSERT_EQ(run("unset PYTHONPATH; HF_ASSETS=/assets MASTER_ADDR=h NODE_RANK=0 bash run.sh"), 0) << out_;
    EXPECT_NE(out_.find("torchtitan.train\n--module\ntwinpod_run\n--config\nrun\n"), std::string::npos) << out_;
    const std::string batch = settings_of(emitted(job.text, "torchtitan")).at("config.training.local_batch_size");
    EXPECT_EQ(out_.find("returned MagicMock " + batch + " ") != std::string::npos, python) << out_;
  }
}

TEST_F(Scripts, SlurmStartsTheLaunchOnTheNodes) {
  const std::string environment =
      "unset PYTHONPATH; SLURM_JOB_NODELIST=n SLURM_NODEID=1 SLURM_JOB_ID=7 MEGATRON_PATH=/megatron DATA_PATH=mock "
      "HF_ASSETS=/a bash run.sh";
  for (const char* launch : {"slurm:megatron", "slurm:nemo"}) {
    write("run.sh", emitted(mcore_jobs()[1].text, launch));
    EXPECT_EQ(run(environment), 0) << out_;
    EXPECT_NE(out_.find("--rdzv_endpoint\nnode1:29500\n"), std::string::npos) << out_;
    EXPECT_NE(out_.find("--node_rank\n1\n"), std::string::npos) << out_;
  }
  write("run.sh", emitted(torchtitan_jobs()[0].text, "slurm:torchtitan"));
  EXPECT_EQ(run(environment), 0) << out_;
  EXPECT_NE(out_.find("--nnodes\n8\n"), std::string::npos) << out_;
}

TEST(Slurm, DirectivesAreKnown) {
  const std::string text = emitted(mcore_jobs()[1].text, "slurm");
  const std::regex directive("#SBATCH (--[a-z-]+)");
  int count = 0;
  for (std::sregex_iterator match(text.begin(), text.end(), directive), end; match != end; ++match, ++count) {
    EXPECT_TRUE(is_known("slurm", std::string((*match)[1]))) << (*match)[1];
  }
  EXPECT_EQ(count, 6);
}

TEST(Slurm, NodesAndDevicesAreThoseOfTheJob) {
  const std::string text = emitted(mcore_jobs()[1].text, "slurm");
  EXPECT_NE(text.find("#SBATCH --nodes=64\n"), std::string::npos);
  EXPECT_NE(text.find("#SBATCH --gpus-per-node=8\n"), std::string::npos);
}

TEST(Slurm, TimeIsTheEstimateAndAFifthMore) {
  Launch launch = *launch_named("slurm");
  launch.run_s = 86400 * 10;
  EXPECT_NE(emit(job_of(mcore_jobs()[1].text), launch)->find("#SBATCH --time=12-00:00:00\n"), std::string::npos);
}

TEST(KnownNames, TheDocumentHasTheTables) {
  std::ifstream file(TWINPOD_SOURCE_DIR "/docs/emit.md");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  for (const char* program : {"megatron", "torchtitan", "nemo", "torchrun", "slurm"}) {
    EXPECT_NE(text.find(names_as_markdown(program)), std::string::npos)
        << "docs/emit.md should have, for " << program << ":\n"
        << names_as_markdown(program);
    EXPECT_NE(text.find(seen_at(program)), std::string::npos) << seen_at(program);
  }
}

TEST(KnownNames, NoneStandsTwice) {
  for (const char* program : {"megatron", "torchtitan", "nemo", "torchrun", "slurm"}) {
    std::map<std::string_view, int> count;
    for (const KnownName& known : known_names(program)) EXPECT_EQ(++count[known.name], 1) << known.name;
  }
}

}  // namespace
}  // namespace twinpod::emit
