// Nothing in a store leads out of it: symbolic links, pipes, names that climb. And what is no save's stays.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "store/direct_files.hpp"
#include "store/lock.hpp"
#include "store/pick.hpp"
#include "store/private_folder.hpp"
#include "store/test_checkpoints.hpp"

namespace twinpod::store {
namespace {

namespace fs = std::filesystem;

// A store, and a folder beside it that must stay as it is.
struct Inside {
  const std::string base = testing::TempDir() + "store_inside";
  const std::string root = base + "/s";
  const std::string outside = base + "/outside";
  DirectFiles files{DirectOptions{.root = root}};
  Inside() {
    fs::remove_all(base);
    fs::create_directories(outside + "/folder");
    for (const char* name : {"/manifest.json", "/shard-00000.safetensors", "/folder/mine"})
      std::ofstream(outside + name) << "mine";
    for (int step = 1; step <= 3; ++step) EXPECT_TRUE(save_step(files, root, step, {.tp = 2}));
  }
  ~Inside() { fs::remove_all(base); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  std::string checkpoint(int number) const { return root + "/" + checkpoint_name(number); }
  // "": everything is there, and has its content.
  std::string harm() const {
    for (const char* name : {"/manifest.json", "/shard-00000.safetensors", "/folder/mine"}) {
      std::string text;
      std::ifstream(outside + name) >> text;
      if (text != "mine") return std::string(name) + " is \"" + text + "\"";
    }
    std::size_t count = 0;
    for (const auto& entry : fs::recursive_directory_iterator(outside)) count += entry.exists() ? 1 : 0;
    return count == 4 ? "" : "there is something new";
  }
};

TEST(StoreInside, PruningDoesNotFollowALinkInPlaceOfACheckpoint) {
  const Inside inside;
  DirectFiles files{DirectOptions{.root = inside.root}};
  fs::remove_all(inside.checkpoint(1));
  fs::create_directory_symlink(inside.outside, inside.checkpoint(1));
  EXPECT_TRUE(prune_checkpoints(files, inside.root, 1));
  EXPECT_TRUE(clear_unfinished(files, inside.root)) << "it is no reason to fail";
  EXPECT_FALSE(remove_checkpoint(files, inside.root, checkpoint_name(1)));
  EXPECT_EQ(inside.harm(), "");
  EXPECT_TRUE(fs::is_symlink(inside.checkpoint(1))) << "it is not ours";
}

TEST(StoreInside, ALinkInPlaceOfACheckpointIsNamed) {
  const Inside inside;
  DirectFiles files{DirectOptions{.root = inside.root}};
  fs::create_directory_symlink(inside.outside, inside.checkpoint(9));
  const std::vector<CheckpointInfo> infos = list_checkpoints(files, inside.root).value();
  EXPECT_FALSE(infos.front().complete);
  EXPECT_NE(infos.front().problem.find("checkpoint-000009 is a symbolic link"), std::string::npos)
      << infos.front().problem;
  EXPECT_EQ(newest_whole(files, inside.root)->manifest.state.step, 3);
}

TEST(StoreInside, ALinkInPlaceOfAFileIsNeitherReadNorWrittenThrough) {
  const Inside inside;
  DirectFiles files{DirectOptions{.root = inside.root}};
  for (const char* name : {"manifest.json", "shard-00000.safetensors"}) {
    fs::rename(inside.checkpoint(3) + "/" + name, inside.base + "/kept");
    fs::create_symlink(inside.base + "/kept", inside.checkpoint(3) + "/" + name);
    EXPECT_FALSE(verify_checkpoint(files, inside.checkpoint(3))) << name;
    fs::remove(inside.checkpoint(3) + "/" + name);
    fs::rename(inside.base + "/kept", inside.checkpoint(3) + "/" + name);
    EXPECT_TRUE(verify_checkpoint(files, inside.checkpoint(3))) << name;
  }
}

TEST(StoreInside, SavesReplaceLinksAndDoNotWriteThroughThem) {
  Inside inside;
  for (const char* name : {"latest", "latest.partial", "lock"}) {
    fs::remove(inside.root + "/" + name);
    fs::create_symlink(inside.outside + "/folder/mine", inside.root + "/" + name);
  }
  EXPECT_TRUE(save_step(inside.files, inside.root, 4, {}));
  EXPECT_EQ(inside.harm(), "");
  EXPECT_FALSE(lock_store(inside.files, inside.root)) << "the lock must be a file";
  EXPECT_EQ(inside.harm(), "");
}

TEST(StoreInside, WhatIsPutIntoACheckpointIsRemovedAsALink) {
  Inside inside;
  fs::create_directory_symlink(inside.outside + "/folder", inside.checkpoint(1) + "/shard-00007.safetensors");
  EXPECT_TRUE(remove_checkpoint(inside.files, inside.root, checkpoint_name(1)));
  EXPECT_FALSE(fs::exists(inside.checkpoint(1)));
  EXPECT_EQ(inside.harm(), "");
}

TEST(StoreInside, AFileThatNoSaveWroteStaysWithItsFolder) {
  Inside inside;
  std::ofstream(inside.checkpoint(1) + "/notes.txt") << "mine";
  EXPECT_TRUE(prune_checkpoints(inside.files, inside.root, 1));
  EXPECT_TRUE(fs::exists(inside.checkpoint(1) + "/notes.txt"));
  EXPECT_FALSE(fs::exists(inside.checkpoint(1) + "/manifest.json"));
  EXPECT_TRUE(prune_checkpoints(inside.files, inside.root, 1)) << "again";
}

TEST(StoreInside, AFolderOfOtherSoftwareIsNotTakenForASaveThatDidNotEnd) {
  Inside inside;
  fs::create_directory(inside.root + "/checkpoint-100000");
  std::ofstream(inside.root + "/checkpoint-100000/pytorch_model.bin") << "mine";
  fs::create_directory(inside.root + "/checkpoint-000000");
  std::ofstream(inside.root + "/checkpoint-000000/trainer_state.json") << "mine";
  EXPECT_TRUE(clear_unfinished(inside.files, inside.root));
  EXPECT_TRUE(prune_checkpoints(inside.files, inside.root, 1));
  EXPECT_TRUE(fs::exists(inside.root + "/checkpoint-100000/pytorch_model.bin"));
  EXPECT_TRUE(fs::exists(inside.root + "/checkpoint-000000/trainer_state.json"));
}

TEST(StoreInside, APipeInPlaceOfAFileIsRefusedAndNotWaitedFor) {
  Inside inside;
  for (const std::string& path : {inside.checkpoint(3) + "/manifest.json",
                                  inside.checkpoint(2) + "/shard-00000.safetensors", inside.root + "/latest"}) {
    fs::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  }
  EXPECT_EQ(newest_whole(inside.files, inside.root)->manifest.state.step, 1);
  EXPECT_FALSE(latest_name(inside.files, inside.root));
}

TEST(StoreInside, TheStoreItselfMayBeALink) {
  Inside inside;
  const std::string link = inside.base + "/link";
  fs::create_directory_symlink(inside.root, link);
  DirectFiles files{DirectOptions{.root = link}};
  EXPECT_TRUE(save_step(files, link, 4, {}));
  EXPECT_EQ(newest_whole(inside.files, inside.root)->manifest.state.step, 4);
}

TEST(StoreInside, ACheckpointThatIsNamedIsNoWayOutEither) {
  const Inside inside;
  fs::create_directory_symlink(inside.outside, inside.checkpoint(9));
  EXPECT_FALSE(pick_checkpoint(inside.checkpoint(9)));
  EXPECT_TRUE(pick_checkpoint(inside.checkpoint(3)));
}

TEST(StoreInside, NamesThatClimbAreRefused) {
  Inside inside;
  EXPECT_FALSE(inside.files.open(inside.root + "/../outside/folder/mine"));
  EXPECT_FALSE(inside.files.remove(inside.root + "/checkpoint-000001/../../outside/folder/mine"));
  EXPECT_EQ(inside.harm(), "");
}

TEST(StorePrivate, AFolderOfOursIsMadeForUsAlone) {
  const std::string path = testing::TempDir() + "private_folder";
  fs::remove_all(path);
  ASSERT_TRUE(make_private_folder(path));
  ASSERT_TRUE(make_private_folder(path)) << "again";
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  fs::remove_all(path);
}

TEST(StorePrivate, OneThatOthersMadeOrCanChangeIsRefused) {
  const std::string path = testing::TempDir() + "private_folder";
  const auto refusal = [&] {
    const Result<void> made = make_private_folder(path);
    return made ? std::string() : made.error().message;
  };
  fs::remove_all(path);
  fs::create_directory_symlink("/tmp", path);
  EXPECT_NE(refusal().find("is a symbolic link"), std::string::npos) << refusal();
  fs::remove(path);
  std::ofstream(path) << "a file";
  EXPECT_NE(refusal().find("is no folder"), std::string::npos) << refusal();
  fs::remove(path);
  fs::create_directory(path);
  ASSERT_EQ(chmod(path.c_str(), 0777), 0);
  EXPECT_NE(refusal().find("can be written to by other users"), std::string::npos) << refusal();
  ASSERT_EQ(chmod(path.c_str(), 0700), 0);
  if (geteuid() == 0) {
    ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
    EXPECT_NE(refusal().find("(65534)"), std::string::npos) << refusal();
  }
  fs::remove_all(path);
}

}  // namespace
}  // namespace twinpod::store
