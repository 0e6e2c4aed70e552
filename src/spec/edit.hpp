// `--set a.b=c`: changes a document before it is read.
//
//     Setting setting("layout.tp=8");
//     apply_setting(root, setting);                              // errors name the file `--set layout.tp=8`
//     apply_setting(root, Setting("layout.tp=8", "--tp 8"));     // ... `--tp 8`
#pragma once

#include <string>
#include <utility>

#include "core/error.hpp"
#include "spec/node.hpp"

namespace twinpod::spec {

struct Setting {
  // Implicit, so that a list of texts is a list of settings.
  Setting(const char* what) : text(what) {}             // NOLINT(google-explicit-constructor)
  Setting(std::string what) : text(std::move(what)) {}  // NOLINT(google-explicit-constructor)
  Setting(std::string what, std::string as_written) : text(std::move(what)), option(std::move(as_written)) {}

  std::string text;    // key.key=value; the value is YAML, so lists and mappings in flow style work
  std::string option;  // what the user wrote on the command line; empty: --set and the text
};

// What the file says in another way (tokens and text, global_batch and global_batch_tokens) goes. Mappings on the way
// that are missing are made. Where a catalog name stands (model, cluster, stack, node, device) and a key below it is
// set, the name becomes the mapping's `base`.
Result<void> apply_setting(Node& root, const Setting& setting);

}  // namespace twinpod::spec
