#include "spec/catalog.hpp"

#include <gtest/gtest.h>

#include <map>

#include "spec/test_catalog.hpp"

namespace twinpod::spec {
namespace {

TEST(Catalog, DeviceIsReadInBaseUnits) {
  const TestCatalog files;
  const Result<Device> device = files.catalog().device("dev");
  ASSERT_TRUE(device.has_value()) << to_string(device.error());
  EXPECT_EQ(device->name, "Dev 80");
  EXPECT_EQ(device->entry, "dev");
  EXPECT_EQ(device->peak_flop_per_s[static_cast<std::size_t>(Precision::bf16)], 100e12);
  EXPECT_EQ(device->peak_flop_per_s[static_cast<std::size_t>(Precision::fp8)], 0);
  EXPECT_EQ(device->memory_bytes, 80e9);
  EXPECT_EQ(device->memory_bytes_per_s, 2e12);
  EXPECT_EQ(device->compute_units, 108);
  EXPECT_EQ(device->usd_per_hour, 2.5);
  EXPECT_EQ(device->price_origin, Origin::recalled);
  EXPECT_EQ(device->source.origin, Origin::vendor_sheet);
  EXPECT_EQ(device->source.text, "sheet");
}

TEST(Catalog, LinkIsReadInBaseUnits) {
  const TestCatalog files;
  EXPECT_EQ(files.catalog().link("wire")->bytes_per_s, 50e9);
  EXPECT_EQ(files.catalog().link("wire")->latency_s, 1e-6);
}

TEST(Catalog, ClusterIsItsNodeManyTimesOver) {
  const TestCatalog files;
  const Result<Cluster> pod = files.catalog().cluster("pod");
  ASSERT_TRUE(pod.has_value()) << to_string(pod.error());
  EXPECT_EQ(pod->device.entry, "dev");
  EXPECT_EQ(pod->devices, 64);
  EXPECT_EQ(pod->devices_per_node, 8);
  EXPECT_EQ(pod->scale_up_domain, 8);
  EXPECT_EQ(pod->scale_up_bytes_per_s, 300e9);
  EXPECT_EQ(pod->scale_out_bytes_per_s, 4 * 25e9 / 8) << "the NICs are shared by the node's devices";
  EXPECT_EQ(pod->scale_out_latency_s, 2e-6);
  EXPECT_EQ(pod->usd_per_device_hour, 3);
}

TEST(Catalog, UnknownNameNamesTheNearestAndHowManyThereAre) {
  const TestCatalog files;
  const Result<Device> device = files.catalog().device("dve");
  ASSERT_FALSE(device.has_value());
  EXPECT_EQ(device.error().message, "there is no device `dve`");
  EXPECT_EQ(device.error().hint, "did you mean `dev`? `twinpod show devices` lists all 2");
  EXPECT_EQ(device.error().file, "") << "only the caller knows where the name stands";
}

TEST(Catalog, NamesNeverLeaveTheirFolder) {
  const TestCatalog files;
  for (const char* name : {"", ".", "..", "../devices/dev", "/etc/passwd", "dev.yaml", "a b", "dev\n"}) {
    EXPECT_FALSE(files.catalog().device(name).has_value()) << name;
  }
  EXPECT_FALSE(files.catalog().device(std::string("dev\0", 4)).has_value());
  EXPECT_FALSE(files.catalog().device(std::string(100000, 'd')).has_value());
}

TEST(Catalog, NamesAreSorted) {
  const TestCatalog files;
  EXPECT_EQ(files.catalog().names(Shelf::devices), (std::vector<std::string>{"dev", "old"}));
  EXPECT_TRUE(files.catalog().names(Shelf::runs).empty());
}

TEST(Catalog, DeviceIsFoundByAliasInAnyCase) {
  const TestCatalog files;
  const Catalog catalog = files.catalog();
  for (const char* text : {"dev", "DEV-80GB", "dev-80gb", "Dev 80", "dev sxm"}) {
    EXPECT_EQ(catalog.device_by_alias(text).value_or("none"), "dev") << text;
  }
  EXPECT_EQ(catalog.device_by_alias("old").value_or("none"), "old");
  EXPECT_NE(catalog.device_by_alias("dev-80g").error().hint.find("dev-80gb"), std::string::npos);
}

TEST(Catalog, EntryWithoutSourceIsRefused) {
  const TestCatalog files;
  files.write("links/bare.yaml", "name: Bare\nbandwidth: 1 GB/s\norigin: measured\n");
  const Result<Link> link = files.catalog().link("bare");
  ASSERT_FALSE(link.has_value());
  EXPECT_EQ(link.error().message, "this link has no `source`, which it needs");
  EXPECT_EQ(link.error().line, 1);
}

TEST(Catalog, EntryWithABaseIsRefused) {
  const TestCatalog files;
  files.write("clusters/copy.yaml", "name: Copy\nbase: copy\norigin: derived\nsource: x\n");
  EXPECT_EQ(files.catalog().cluster("copy").error().line, 2);
}

TEST(Catalog, ErrorsInsideAnEntryNameItsFileAndLine) {
  const TestCatalog files;
  const std::string path =
      files.write("devices/bad.yaml", "name: Bad\nfamily: x\nmemory: -1 GB\norigin: recalled\nsource: x\n");
  const Error error = files.catalog().device("bad").error();
  EXPECT_EQ(error.file, path);
  EXPECT_EQ(error.line, 3);
}

TEST(Catalog, StackHasItsNumbersResolvedForTheDevice) {
  const TestCatalog files;
  const Catalog catalog = files.catalog();
  const Result<Stack> stack = catalog.stack("nemo-2025", "fam");
  ASSERT_TRUE(stack.has_value()) << to_string(stack.error());
  EXPECT_EQ(stack->name, "nemo-2025");
  EXPECT_EQ(stack->title, "NeMo");
  EXPECT_EQ(stack->physics.gemm_efficiency_bf16, 0.8);
  EXPECT_EQ(stack->physics.tp_hidden, 0.5) << "of the trait";
  EXPECT_EQ(stack->physics.pace, 0.95);
  EXPECT_EQ(catalog.stack("other", "fam")->physics.wave_weight, 2) << "fixed by the stack";
  EXPECT_EQ(catalog.stack("nemo-2025", "none")->physics.gemm_efficiency_bf16, default_physics().gemm_efficiency_bf16);
}

// ---- the catalog that comes with the program

template <typename Read>
void expect_all_readable(const Catalog& catalog, Shelf shelf, Read read) {
  const std::vector<std::string> names = catalog.names(shelf);
  EXPECT_FALSE(names.empty()) << folder_name(shelf);
  for (const std::string& name : names) {
    const auto entry = read(name);
    EXPECT_TRUE(entry.has_value()) << to_string(entry.error());
  }
}

TEST(CatalogData, EveryEntryIsReadable) {
  const Catalog catalog(TWINPOD_CATALOG_DIR);
  expect_all_readable(catalog, Shelf::devices, [&](const std::string& name) { return catalog.device(name); });
  expect_all_readable(catalog, Shelf::links, [&](const std::string& name) { return catalog.link(name); });
  expect_all_readable(catalog, Shelf::nodes, [&](const std::string& name) { return catalog.node(name); });
  expect_all_readable(catalog, Shelf::clusters, [&](const std::string& name) { return catalog.cluster(name); });
  expect_all_readable(catalog, Shelf::models, [&](const std::string& name) { return catalog.model(name); });
  expect_all_readable(catalog, Shelf::stacks, [&](const std::string& name) { return catalog.stack(name, "a100"); });
  expect_all_readable(catalog, Shelf::runs,
                      [&](const std::string& name) { return parse_yaml_file(*catalog.path(Shelf::runs, name)); });
}

TEST(CatalogData, NodesNameDevicesThatExist) {
  const Catalog catalog(TWINPOD_CATALOG_DIR);
  for (const std::string& name : catalog.names(Shelf::nodes)) {
    const Result<NodeType> node = catalog.node(name);
    if (!node) continue;
    EXPECT_TRUE(catalog.device(node->device).has_value()) << name << ": " << node->device;
  }
}

TEST(CatalogData, AnAliasBelongsToOneDevice) {
  const Catalog catalog(TWINPOD_CATALOG_DIR);
  for (const std::string& name : catalog.names(Shelf::devices)) {
    const Result<Device> device = catalog.device(name);
    if (!device) continue;
    EXPECT_EQ(catalog.device_by_alias(name).value_or(""), name);
    EXPECT_EQ(catalog.device_by_alias(device->name).value_or(""), name);
    for (const std::string& alias : device->aliases)
      EXPECT_EQ(catalog.device_by_alias(alias).value_or(""), name) << alias;
  }
}

}  // namespace
}  // namespace twinpod::spec
