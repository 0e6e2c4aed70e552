#include "report/catalog_listing.hpp"

#include <gtest/gtest.h>

#include <map>

namespace twinpod::report {
namespace {

using spec::Shelf;

const spec::Catalog& shipped_catalog() {
  static const spec::Catalog kCatalog(TWINPOD_CATALOG_DIR);
  return kCatalog;
}

TEST(CatalogListing, EveryEntryOfEveryShelfCanBeListedAndShown) {
  for (const Shelf shelf :
       {Shelf::devices, Shelf::links, Shelf::nodes, Shelf::clusters, Shelf::models, Shelf::stacks}) {
    const Result<Listing> all = list(shipped_catalog(), shelf);
    ASSERT_TRUE(all.has_value()) << to_string(all.error());
    EXPECT_EQ(all->rows.size(), shipped_catalog().names(shelf).size());
    for (const std::string& name : shipped_catalog().names(shelf)) {
      const Result<Sheet> one = sheet(shipped_catalog(), shelf, name);
      ASSERT_TRUE(one.has_value()) << to_string(one.error());
      EXPECT_FALSE(one->figures.empty()) << name;
      EXPECT_FALSE(one->source.empty()) << name;
    }
  }
}

TEST(CatalogListing, EveryFigureOfADeviceHasAnOrigin) {
  const Result<Sheet> one = sheet(shipped_catalog(), Shelf::devices, "h100-sxm");
  ASSERT_TRUE(one.has_value());
  for (const Figure& figure : one->figures) EXPECT_FALSE(figure.origin.empty()) << figure.key;
}

TEST(CatalogListing, AClusterKeepsTheOriginOfItsNodesFigures) {
  const Result<Sheet> one = sheet(shipped_catalog(), Shelf::clusters, "dgx-superpod-a100-140");
  ASSERT_TRUE(one.has_value());
  std::map<std::string, std::string> origin_of_key;
  for (const Figure& figure : one->figures) origin_of_key[figure.key] = figure.origin;
  EXPECT_EQ(origin_of_key["devices"], "derived");
  EXPECT_EQ(origin_of_key["node_power_w"], "vendor_sheet");
}

TEST(CatalogListing, ParametersHaveMeaningAndBounds) {
  const Result<Listing> all = list_parameters(shipped_catalog());
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->rows.size(), spec::physics_fields().size());
}

TEST(CatalogListing, AnUnknownNameNamesTheNearest) {
  const Result<Sheet> one = sheet(shipped_catalog(), Shelf::models, "gpt3-175");
  ASSERT_FALSE(one.has_value());
  EXPECT_NE(one.error().hint.find("gpt3-175b"), std::string::npos);
}

}  // namespace
}  // namespace twinpod::report
