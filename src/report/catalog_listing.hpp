// The catalog for people and scripts: a line for each entry, or one entry with all its figures.
//
//     Result<Listing> devices = list(catalog, spec::Shelf::devices);
//     Result<Sheet> h100 = sheet(catalog, spec::Shelf::devices, "h100-sxm");
#pragma once

#include <string_view>

#include "core/error.hpp"
#include "report/listing.hpp"
#include "spec/catalog.hpp"

namespace twinpod::report {

// Every shelf but runs, which `validate` shows.
Result<Listing> list(const spec::Catalog& catalog, spec::Shelf shelf);
Result<Sheet> sheet(const spec::Catalog& catalog, spec::Shelf shelf, std::string_view name);

// The numbers of the closed form: meaning, unit, prior, bounds, and how many scopes were fitted apart.
Result<Listing> list_parameters(const spec::Catalog& catalog);

}  // namespace twinpod::report
