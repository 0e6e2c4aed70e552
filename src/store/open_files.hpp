// A store by its address, as users write it: a folder.
//
//     Result<OpenedStore> store = open_files("runs/a");
//     list_checkpoints(*store->files, store->root);
#pragma once

#include <memory>
#include <string>

#include "store/files.hpp"

namespace twinpod::store {

struct OpenedStore {
  std::shared_ptr<Files> files;
  std::string root;
  std::string tier;  // kind of tier: "local", or "shared" for a network file system
};

// Opens nothing yet: whether it is there shows with the first use.
Result<OpenedStore> open_files(const std::string& address);

}  // namespace twinpod::store
