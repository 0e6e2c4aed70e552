// Where a catalog figure comes from. Every entry of the catalog carries one.
#pragma once

#include <string>

namespace twinpod::spec {

enum class Origin {
  user,          // written in the job
  measured,      // somebody ran it
  vendor_sheet,  // printed by the maker
  derived,       // computed from other entries
  recalled,      // known, but not read in the source again
};

struct Source {
  std::string text;
  Origin origin = Origin::user;
};

}  // namespace twinpod::spec
