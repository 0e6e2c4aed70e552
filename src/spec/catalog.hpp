// The catalog: devices, links, nodes, clusters, models, stacks and published runs as data files, one entry a file.
//
//     const Catalog catalog("catalog");                          // reads nothing yet
//     Result<Cluster> pod = catalog.cluster("dgx-superpod-a100-140");
//
// An entry's name is its file's name, so one command reads only the files that it needs (a command answers in
// milliseconds). An unknown name is an input error that names the nearest known one; it has no file or line of its own,
// because only the caller knows where the name stands. Copies share what was read. All of it may be used by several
// threads at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "spec/cluster.hpp"
#include "spec/model.hpp"
#include "spec/node.hpp"
#include "spec/parameters.hpp"
#include "spec/stack.hpp"

namespace twinpod::spec {

enum class Shelf { devices, links, nodes, clusters, models, stacks, runs };
std::string_view folder_name(Shelf shelf);

class Catalog {
 public:
  explicit Catalog(std::string folder);

  const std::string& folder() const { return folder_; }
  std::vector<std::string> names(Shelf shelf) const;  // sorted
  Result<std::string> path(Shelf shelf, std::string_view name) const;

  Result<Device> device(std::string_view name) const;
  Result<Link> link(std::string_view name) const;
  Result<NodeType> node(std::string_view name) const;
  Result<Cluster> cluster(std::string_view name) const;
  Result<Model> model(std::string_view name) const;

  // The device that is called so: its entry, its name, or one of its aliases, upper and lower case alike. Reads all
  // devices the first time.
  Result<std::string> device_by_alias(std::string_view text) const;

  // A stack with its numbers resolved for a device's family.
  Result<Stack> stack(std::string_view name, const std::string& device_family) const;
  Result<Parameters> parameters() const;

 private:
  struct Cache;

  std::string folder_;
  std::shared_ptr<Cache> cache_;
};

}  // namespace twinpod::spec
