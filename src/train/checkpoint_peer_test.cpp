// Hosts are lost with all they had; what their peers kept is enough, while of each shard one copy is left.
#include "train/checkpoint_peer.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "store/load.hpp"
#include "train/agree.hpp"
#include "train/checkpoint.hpp"
#include "train/checkpoint_gather.hpp"

namespace twinpod::train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kElements = 700'001;  // of a rank: several pieces, the last one short

// A folder of the test, which goes with it.
struct Folder {
  Folder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path = fmt::format("{}peers-{}-{}", testing::TempDir(), test->name(), getpid());
    fs::remove_all(path);
  }
  ~Folder() { fs::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path;
};

std::vector<float> values_of(int rank, int save) {
  std::vector<float> values(kElements);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(rank * 1000 + save * 100) + static_cast<float>(i % 97);
  return values;
}

using Hosts = std::vector<std::string>;  // of each rank

PeerSettings peer_on(const Folder& folder, const std::string& host, bool resumes = false) {
  return {.root = folder.path + "/memory", .host = host, .keep = 1, .resumes = resumes};
}

void on_ranks(const Hosts& hosts, const comm::Body& body) {
  const Result<std::string> done = comm::run_threads(static_cast<int>(hosts.size()), {.timeout_s = 30}, body);
  EXPECT_TRUE(done) << done.error().message;
}

// So many saves, as training does them; the last one's values are those of values_of(rank, saves).
SaveReport save_on(const Folder& folder, const Hosts& hosts, int saves, bool at_end = false) {
  SaveReport report;
  on_ranks(hosts, [&](comm::Communicator& world) -> Result<std::string> {
    const int rank = comm::rank_of(world);
    const auto ranks = static_cast<std::int64_t>(hosts.size());
    store::PosixFiles files;
    CheckpointSettings settings;
    settings.tiers = {{.name = "shared", .files = &files, .root = folder.path + "/store", .every = 1000}};
    settings.peer = peer_on(folder, hosts[static_cast<std::size_t>(rank)]);
    std::vector<float> live = values_of(rank, 0);
    const store::HeldRegion held{
        "w", "F32", {ranks * kElements}, {{rank * kElements}, {kElements}}, std::as_bytes(std::span(live))};
    Result<Opened> opened = open_tiers(world, settings);
    if (!opened) return tl::unexpected(opened.error());
    if (opened->refused) return tl::unexpected(*opened->refused);
    Saver saver(world, settings, {held}, std::move(*opened));
    for (int save = 1; save <= saves; ++save) {
      const std::vector<float> now = values_of(rank, save);
      std::copy(now.begin(), now.end(), live.begin());
      store::TrainingState state;
      state.step = save;
      saver.begin(state, at_end && save == saves);
      saver.before_update();
      const Result<std::optional<Error>> done = saver.finish(at_end && save == saves);
      if (!done) return tl::unexpected(done.error());
    }
    if (rank == 0) report = saver.report();
    return std::string();
  });
  return report;
}

// What came of looking for the newest: its number, or why there is none.
struct Found {
  std::int64_t number = 0;
  std::string lost;
};

// Each rank loads all of it.
Found load_on(const Folder& folder, const Hosts& hosts, int saved_ranks, int save) {
  Found found;
  on_ranks(hosts, [&](comm::Communicator& world) -> Result<std::string> {
    const int rank = comm::rank_of(world);
    const PeerSettings peer = peer_on(folder, hosts[static_cast<std::size_t>(rank)], true);
    const Result<std::int64_t> number = newest_of_peers(world, peer, INT32_MAX);
    if (!number) return tl::unexpected(number.error());
    const Needed all = [](const store::Manifest& manifest) { return std::vector<bool>(manifest.shards.size(), true); };
    const Result<std::optional<Error>> lost = gather_from_peers(world, peer, *number, all);
    if (!lost) return tl::unexpected(lost.error());
    if (rank == 0) found = {*number, *lost ? (*lost)->message : ""};
    if (*lost) return std::string();
    HostFiles files(peer.host_folder());
    const std::string checkpoint = peer.host_folder() + "/" + store::checkpoint_name(*number);
    const Result<store::Manifest> manifest = store::read_manifest(files, checkpoint);
    if (!manifest) return tl::unexpected(manifest.error());
    EXPECT_EQ(manifest->state.step, save);
    for (int r = 0; r < saved_ranks; ++r) {
      std::vector<float> values(kElements);
      const Result<std::int64_t> loaded = store::load_regions(
          files, checkpoint, *manifest,
          {{"w", "F32", {{r * kElements}, {kElements}}, std::as_writable_bytes(std::span(values))}});
      if (!loaded) return tl::unexpected(loaded.error());
      EXPECT_EQ(values, values_of(r, save)) << "rank " << rank << ", part of rank " << r;
    }
    return std::string();
  });
  return found;
}

TEST(Peers, ReplicasAreOnOtherHosts) {
  const std::vector<std::vector<std::int64_t>> placed = {
      {1, 2}, {1, 1, 2, 2}, {1, 2, 1, 2}, {1, 2, 3}, {1, 1, 2, 2, 3, 3}};
  for (const std::vector<std::int64_t>& hosts : placed) {
    for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
      const Partners partners = partners_of(static_cast<int>(rank), hosts);
      EXPECT_NE(hosts[static_cast<std::size_t>(partners.keeper)], hosts[rank]);
      EXPECT_EQ(partners_of(partners.keeper, hosts).kept, static_cast<int>(rank));
    }
  }
  EXPECT_EQ(partners_of(1, {7, 7, 7, 7}).keeper, 3);  // one host: another process
}

TEST(Peers, AHostIsLost) {
  for (const char* lost : {"a", "b"}) {
    const Folder folder;
    const SaveReport report = save_on(folder, {"a", "a", "b", "b"}, 3);
    EXPECT_EQ(report.saved, 3);
    fs::remove_all(fmt::format("{}/memory/{}", folder.path, lost));
    const std::string left = std::string(lost) == "a" ? "b" : "a";
    const Found found = load_on(folder, {left, left, "c", "c"}, 4, 3);  // an empty host in its place
    EXPECT_EQ(found.number, 3) << found.lost;
    EXPECT_EQ(found.lost, "");
  }
}

TEST(Peers, OtherRanksOnOneHost) {
  const Folder folder;
  save_on(folder, {"a", "b", "c"}, 2);
  fs::remove_all(folder.path + "/memory/b");
  EXPECT_EQ(load_on(folder, {"a", "c", "d", "d", "d"}, 3, 2).lost, "");
}

TEST(Peers, TwoHostsAreLost) {
  const Folder folder;
  save_on(folder, {"a", "b", "c"}, 1);
  fs::remove_all(folder.path + "/memory/a");
  fs::remove_all(folder.path + "/memory/b");
  const Found found = load_on(folder, {"c", "d", "e"}, 3, 1);
  EXPECT_EQ(found.lost, "checkpoint-000001 in the memory of peers: no host that is left has shard-00000.safetensors");
}

TEST(Peers, OldOnesGoWhenNewOnesAreThere) {
  const Folder folder;
  save_on(folder, {"a", "b"}, 4);
  const std::string rank = folder.path + "/memory/a/rank-00000/";
  EXPECT_FALSE(fs::exists(rank + "checkpoint-000002"));
  EXPECT_TRUE(fs::exists(rank + "checkpoint-000003/manifest.json"));  // until the next one begins
  EXPECT_TRUE(fs::exists(rank + "checkpoint-000004/shard-00001.safetensors"));
}

TEST(Peers, SlowerTiersHaveTheFirstAndTheLast) {
  const Folder folder;
  save_on(folder, {"a", "b"}, 3, true);
  store::PosixFiles files;
  EXPECT_EQ(store::latest_name(files, folder.path + "/store").value(), "checkpoint-000003");
  EXPECT_TRUE(fs::exists(folder.path + "/store/checkpoint-000001"));
  EXPECT_FALSE(fs::exists(folder.path + "/store/checkpoint-000002"));
  EXPECT_FALSE(fs::exists(folder.path + "/memory"));  // freed at the end
}

TEST(Peers, AnotherRunAndOneRankAreRefused) {
  const Folder folder;
  save_on(folder, {"a", "b"}, 1);
  fs::remove_all(folder.path + "/store");
  for (const Hosts& hosts : {Hosts{"a", "b"}, Hosts{"x"}}) {
    on_ranks(hosts, [&](comm::Communicator& world) -> Result<std::string> {
      store::PosixFiles files;
      CheckpointSettings settings;
      settings.tiers = {{.name = "shared", .files = &files, .root = folder.path + "/store"}};
      settings.peer = peer_on(folder, hosts[static_cast<std::size_t>(comm::rank_of(world))]);
      const Result<Opened> opened = open_tiers(world, settings);
      if (!opened) return tl::unexpected(opened.error());
      EXPECT_TRUE(opened->refused);
      if (!opened->refused) return std::string();
      EXPECT_NE(opened->refused->message.find(hosts.size() == 1 ? "one rank has no peer" : "holds checkpoints"),
                std::string::npos);
      return std::string();
    });
  }
}

}  // namespace
}  // namespace twinpod::train
