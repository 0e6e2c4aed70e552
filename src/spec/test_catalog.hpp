// A small catalog in a folder of its own, for tests: one entry of each kind, written as text.
//
//     const TestCatalog files;
//     files.write("models/mine.yaml", "name: ...");
//     EXPECT_TRUE(files.catalog().model("mine"));
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "spec/catalog.hpp"

namespace twinpod::spec {

class TestCatalog {
 public:
  TestCatalog() : folder_(std::filesystem::temp_directory_path() / unique_name()) {
    write("devices/dev.yaml",
          "name: Dev 80\nvendor: V\nfamily: fam\npeak: {fp32: 10 TFLOP/s, fp16: 100 TFLOP/s, bf16: 100 TFLOP/s}\n"
          "memory: 80 GB\nmemory_bandwidth: 2 TB/s\nhost_link: 32 GB/s\ncompute_units: 108\npower: 400 W\n"
          "price: {usd_per_hour: 2.5, basis: list price, origin: recalled}\nyear: 2020\naliases: [DEV-80GB, Dev SXM]\n"
          "origin: vendor_sheet\nsource: sheet\n");
    write(
        "devices/old.yaml",
        "name: Old\nfamily: old\npeak: {fp32: 1 TFLOP/s, fp16: 10 TFLOP/s}\nmemory: 16 GB\nmemory_bandwidth: 900 GB/s\n"
        "origin: recalled\nsource: memory\n");
    write("links/wire.yaml", "name: Wire\nbandwidth: 400 Gbit/s\nlatency: 1 us\norigin: measured\nsource: bench\n");
    write("nodes/box.yaml",
          "name: Box\ndevice: dev\ndevices: 8\nscale_up: {kind: switched, bandwidth: 300 GB/s}\nnics: 4\n"
          "nic_bandwidth: 200 Gbit/s\npower: 6 kW\nprice: {usd_per_hour: 24}\norigin: vendor_sheet\nsource: sheet\n");
    write("clusters/pod.yaml",
          "name: Pod\nnode: box\ndevices: 64\nscale_out: {latency: 2 us}\norigin: derived\nsource: sheet\n");
    write("models/tiny.yaml",
          "name: Tiny\nlayers: 4\nhidden: 64\nffn: 256\nvocab: 1000\nmax_sequence: 128\nattention: {heads: 4}\n"
          "positions: learned\nparameters: 264448\norigin: derived\nsource: test\n");
    write("stacks/nemo-2025.yaml",
          "name: NeMo\nfamily: megatron\nyear: 2024\ntraits: [fast]\norigin: recalled\nsource: test\n");
    write("stacks/other.yaml",
          "name: Other\nfamily: other\nyear: 2020\nselective_by_default: true\nfixed: {wave_weight: 2}\norigin: "
          "recalled\n"
          "source: test\n");
    write("parameters.yaml",
          "shared: {wave_weight: 1.5}\ndevice: {fam: {gemm_efficiency_bf16: 0.8}}\ntrait: {fast: {tp_hidden: 0.5}}\n"
          "stack: {nemo-2025: {pace: 0.95}}\n");
  }
  ~TestCatalog() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  TestCatalog(const TestCatalog&) = delete;
  TestCatalog& operator=(const TestCatalog&) = delete;

  std::string folder() const { return folder_.string(); }
  Catalog catalog() const { return Catalog(folder()); }

  // Returns the path.
  std::string write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = folder_ / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }

 private:
  // Tests may run in several processes at a time.
  static std::string unique_name() {
    static int count = 0;
    return "twinpod_catalog_" + std::to_string(getpid()) + "_" + std::to_string(count++);
  }

  std::filesystem::path folder_;
};

}  // namespace twinpod::spec
