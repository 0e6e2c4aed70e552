// How fast checkpoints are saved and loaded here, in the trainer's pattern: each rank a shard of many tensors.
//
//     StoreMeasurer measurer(files, "/data/bench", {.bytes = 1 << 30});
//     const Result<StoreSeconds> seconds = measurer.save_and_load();
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/files.hpp"
#include "store/save.hpp"

namespace twinpod::store {

struct MeasureRequest {
  std::int64_t bytes = 1 << 30;  // of all ranks together
  int ranks = 1;                 // threads, each with a shard
};

struct StoreSeconds {
  double save = 0;        // from the first call to the commit, durable
  double load = 0;        // all regions, every byte checked
  double bare_write = 0;  // the same bytes by the same writes, without checksums, tensors and manifest
  double bare_read = 0;
  double summed_write = 0;  // the same with checksums
  double summed_read = 0;
};

// Holds the bytes, so that they are made once.
class StoreMeasurer {
 public:
  StoreMeasurer(Files& files, std::string root, const MeasureRequest& request);

  // Leaves nothing behind in `root` but the folder.
  Result<StoreSeconds> save_and_load();
  // Of all bytes, by the ranks together, in memory.
  double checksum_seconds() const;
  std::int64_t bytes() const;  // as many as were asked for, in whole tensors

 private:
  struct Rank {
    std::vector<float> values;
    std::vector<HeldRegion> regions;
  };
  Result<double> save(std::string& name, Manifest& manifest);
  Result<double> load(const std::string& name, const Manifest& manifest);
  Result<double> bare(bool write, bool summed);

  Files& files_;
  std::string root_;
  std::vector<Rank> ranks_;
};

}  // namespace twinpod::store
