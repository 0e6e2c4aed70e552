#include "cluster/collective_cost.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "spec/catalog.hpp"
#include "spec/test_catalog.hpp"

namespace twinpod::cluster {
namespace {

constexpr double kMiB = 1 << 20;
constexpr double kGiB = 1 << 30;

const CollectiveCatalog& shipped() {
  static const CollectiveCatalog catalog =
      read_collectives(std::string(TWINPOD_CATALOG_DIR) + "/collectives.yaml").value();
  return catalog;
}

const CollectiveSystem& system(std::string_view name) { return *find_system(shipped(), name); }

CollectiveCost all_reduce(std::string_view name, int ranks, double bytes) {
  return collective_cost(system(name), CollectiveVerb::all_reduce, ranks, bytes);
}

// nccl_tuning's observed selection on H200: ring/LL up to 1 MiB, NVLS from 2 MiB on.
TEST(CollectiveCost, SmallMessagesOfH200GoRoundARingInLl) {
  const CollectiveCost cost = all_reduce("h200-8", 8, 256 * 1024);
  EXPECT_EQ(cost.algorithm, NcclAlgorithm::ring);
  EXPECT_EQ(cost.protocol, NcclProtocol::ll);
}

TEST(CollectiveCost, LargeMessagesOfH200AreAddedUpInTheSwitch) {
  EXPECT_EQ(all_reduce("h200-8", 8, 2 * kMiB).algorithm, NcclAlgorithm::nvls);
}

TEST(CollectiveCost, SwitchesOfH200AddUpForFiveRanksButNotForFour) {
  EXPECT_EQ(all_reduce("h200-8", 4, kGiB).algorithm, NcclAlgorithm::ring);
  EXPECT_EQ(all_reduce("h200-8", 5, kGiB).algorithm, NcclAlgorithm::nvls);
}

TEST(CollectiveCost, SwitchesOfB200AddUpForSixRanksButNotForFive) {
  EXPECT_EQ(all_reduce("b200-8-nccl-tests", 5, 8 * kGiB).algorithm, NcclAlgorithm::ring);
  EXPECT_EQ(all_reduce("b200-8-nccl-tests", 6, 8 * kGiB).algorithm, NcclAlgorithm::nvls);
}

// By NCCL's own constants alone: the threshold of B200 needs no rule.
TEST(CollectiveCost, TheTunerFindsTheThresholdOfB200ByItself) {
  CollectiveSystem any = system("b200-8-nccl-tests");
  any.in_network_from = 2;
  EXPECT_EQ(collective_cost(any, CollectiveVerb::all_reduce, 5, 8 * kGiB).algorithm, NcclAlgorithm::ring);
  EXPECT_EQ(collective_cost(any, CollectiveVerb::all_reduce, 6, 8 * kGiB).algorithm, NcclAlgorithm::nvls);
}

TEST(CollectiveCost, BandwidthsFollowNcclTests) {
  const CollectiveCost cost = all_reduce("a100-8", 8, kGiB);
  EXPECT_DOUBLE_EQ(cost.algbw_bytes_per_s, kGiB / cost.time_s);
  EXPECT_DOUBLE_EQ(cost.busbw_bytes_per_s, cost.algbw_bytes_per_s * 2 * 7 / 8);
}

TEST(CollectiveCost, BusFactorsAreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveVerb::all_gather, 8), 7.0 / 8);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveVerb::all_to_all, 4), 3.0 / 4);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveVerb::broadcast, 8), 1);
}

TEST(CollectiveCost, EightA100ReachTheMeasuredBusBandwidthOfARing) {
  EXPECT_NEAR(all_reduce("a100-8", 8, 16 * kGiB).busbw_bytes_per_s, 234.9e9, 0.06 * 234.9e9);
}

TEST(CollectiveCost, AMeshGivesAPairOneLinkOfSeven) {
  const double pair = collective_cost(system("mi350x-8"), CollectiveVerb::all_gather, 2, 8 * kGiB).busbw_bytes_per_s;
  EXPECT_LT(pair, 76.5e9);
  EXPECT_GT(pair, 50e9);
}

TEST(CollectiveCost, OneRankTakesNoTime) { EXPECT_EQ(all_reduce("a100-8", 1, kGiB).time_s, 0); }

TEST(CollectiveCost, BetweenNodesTheInterfacesBoundTheRate) {
  const CollectiveCost cost = all_reduce("h100-8", 64, 16 * kGiB);
  EXPECT_LT(cost.busbw_bytes_per_s, 8 * 50e9);
  EXPECT_GT(cost.busbw_bytes_per_s, 0.6 * 8 * 50e9);
}

TEST(CollectiveCost, OneRankOfEachNodeHasOneInterface) {
  const CollectiveCost cost = collective_cost(system("h100-8"), CollectiveVerb::all_gather, 8, 4 * kGiB, 1, 1);
  EXPECT_LT(cost.busbw_bytes_per_s, 50e9);
}

TEST(CollectiveCost, GroupsOnDevicesOfTheirOwnDoNotDisturbEachOther) {
  const CollectiveSystem& rack = system("nvl72");
  EXPECT_EQ(collective_cost(rack, CollectiveVerb::all_gather, 4, kGiB, 18).time_s,
            collective_cost(rack, CollectiveVerb::all_gather, 4, kGiB, 1).time_s);
}

TEST(CollectiveCost, MoreGroupsThanDevicesTakeTurns) {
  const CollectiveSystem& node = system("h100-8");
  EXPECT_NEAR(collective_cost(node, CollectiveVerb::all_gather, 8, 16 * kGiB, 2).time_s /
                  collective_cost(node, CollectiveVerb::all_gather, 8, 16 * kGiB, 1).time_s,
              2, 0.05);
}

TEST(CollectiveCost, ThirtySixRanksPayForSixtyFourInAnAllToAllOfSmallParts) {
  const auto seconds = [](int ranks) {
    return collective_cost(system("nvl72"), CollectiveVerb::all_to_all, ranks, ranks * kMiB / 2).time_s;
  };
  EXPECT_GT(seconds(36), 1.5 * seconds(32));
}

// Every shipped system and verb, sizes between the powers of two as well.
TEST(CollectiveCost, TimesGrowWithTheBytes) {
  for (const CollectiveSystem& one : shipped().systems) {
    for (const CollectiveVerb verb :
         {CollectiveVerb::broadcast, CollectiveVerb::reduce, CollectiveVerb::all_reduce, CollectiveVerb::reduce_scatter,
          CollectiveVerb::all_gather, CollectiveVerb::all_to_all}) {
      for (const int ranks : {2, 3, 8, 9, 64, 1000, 65536}) {
        double before = 0;
        for (double bytes = 1; bytes < 1e11; bytes = std::ceil(bytes * 1.7)) {
          const double seconds = collective_cost(one, verb, ranks, bytes).time_s;
          EXPECT_GE(seconds, before) << one.name << " " << name_of(verb) << " " << ranks << " " << bytes;
          EXPECT_TRUE(seconds > 0 && std::isfinite(seconds));
          before = seconds;
        }
      }
    }
  }
}

TEST(SystemOf, ACatalogClusterTakesTheNumbersOfItsFamily) {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  const CollectiveSystem derived = system_of(shipped(), catalog.cluster("dgx-superpod-a100-140").value());
  EXPECT_EQ(derived.numbers.latency_ll, system("a100-8").numbers.latency_ll);
  EXPECT_EQ(derived.domain, 8);
}

TEST(SystemOf, ACatalogClusterKeepsItsOwnRates) {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  const spec::Cluster cluster = catalog.cluster("hgx-h800").value();
  EXPECT_EQ(system_of(shipped(), cluster).scale_up_bytes_per_s, cluster.scale_up_bytes_per_s);
}

TEST(SystemOf, AnUnknownMeshStaysAMesh) {
  const spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  EXPECT_TRUE(system_of(shipped(), catalog.cluster("mi300x-8").value()).mesh);
}

TEST(SystemOf, NumbersOfNoMeasurementAreTheMiddleOfTheMeasuredOnes) {
  EXPECT_GT(system("a100-8").numbers.pair_floor_s, 1e-6);
}

TEST(FindSystem, AcceptsTheNameOfATable) { EXPECT_EQ(find_system(shipped(), "gb300_nvl72(SM_103)")->name, "nvl72"); }

TEST(FindSystem, KnowsNoOther) { EXPECT_EQ(find_system(shipped(), "tpu"), nullptr); }

std::string shipped_text() {
  std::ifstream file(std::string(TWINPOD_CATALOG_DIR) + "/collectives.yaml");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Error error_of(const std::string& found, const std::string& instead) {
  std::string text = shipped_text();
  text.replace(text.find(found), found.size(), instead);
  const spec::TestCatalog files;
  files.write("collectives.yaml", text);
  return read_collectives(files.catalog().folder() + "/collectives.yaml").error();
}

TEST(ReadCollectives, AListOfTheWrongLengthIsRefusedWithItsPlace) {
  const Error error = error_of("base_tree_us: [6.8, 14.0, 8.4]", "base_tree_us: [6.8, 14.0]");
  EXPECT_NE(error.message.find("3 numbers"), std::string::npos) << error.message;
  EXPECT_GT(error.line, 1);
}

TEST(ReadCollectives, AnUnknownFamilyIsRefusedWithTheNearest) {
  const Error error = error_of("family: ampere", "family: amper");
  EXPECT_NE(error.hint.find("ampere"), std::string::npos) << error.hint;
}

TEST(ReadCollectives, AMisspelledNumberIsRefused) {
  const Error error = error_of("    latency_simple: ", "    latency_simpel: ");
  EXPECT_NE(to_string(error).find("latency_simpel"), std::string::npos) << to_string(error);
}

}  // namespace
}  // namespace twinpod::cluster
