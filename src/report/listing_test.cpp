#include "report/listing.hpp"

#include <gtest/gtest.h>

#include "core/units.hpp"

namespace twinpod::report {
namespace {

Listing small_listing() {
  return {
      "devices",
      {{"name", "name"}, {"memory_bytes", "memory", true}},
      {{text_cell("h100"), quantity_cell(80e9, format_bytes)}, {text_cell("abacus"), quantity_cell(0, format_bytes)}}};
}

TEST(Listing, PrintsAlignedColumns) {
  EXPECT_EQ(text_of(small_listing()),
            "name     memory\n"
            "------  -------\n"
            "h100    80.0 GB\n"
            "abacus\n");
}

TEST(Listing, JsonHasTheSameCellsAsNumbers) {
  const auto json = nlohmann::json::parse(json_of(small_listing()));
  EXPECT_EQ(json["devices"][0]["memory_bytes"], 80e9);
  EXPECT_TRUE(json["devices"][1]["memory_bytes"].is_null());
}

TEST(Sheet, LeavesOutWhatIsNotKnown) {
  Sheet sheet{"H100", {}, "a data sheet"};
  sheet.add("memory_bytes", "memory", quantity_cell(80e9, format_bytes), "vendor_sheet");
  sheet.add("power_w", "power", quantity_cell(0, format_bytes), "vendor_sheet");
  EXPECT_EQ(text_of(sheet),
            "H100\n\n"
            "  figure    value  origin\n"
            "  ------  -------  ------------\n"
            "  memory  80.0 GB  vendor_sheet\n"
            "\nsource: a data sheet\n");
}

TEST(Sheet, JsonCarriesTheOriginOfEachFigure) {
  Sheet sheet{"H100", {}, "a data sheet"};
  sheet.add("memory_bytes", "memory", quantity_cell(80e9, format_bytes), "vendor_sheet");
  const auto json = nlohmann::json::parse(json_of(sheet));
  EXPECT_EQ(json["memory_bytes"], 80e9);
  EXPECT_EQ(json["origins"]["memory_bytes"], "vendor_sheet");
  EXPECT_EQ(json["source"], "a data sheet");
}

}  // namespace
}  // namespace twinpod::report
