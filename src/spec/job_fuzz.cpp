// libFuzzer: any bytes are a job, or are refused with a file and a line.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "spec/read.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const twinpod::spec::Catalog catalog(TWINPOD_CATALOG_DIR);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto job = twinpod::spec::read_job_text(text, "job.yaml", catalog);
  const bool right = job ? job->cluster.devices >= 1 && job->training.global_batch >= 1
                         : !job.error().file.empty() && job.error().line >= 1 && !job.error().message.empty();
  if (!right) std::abort();
  return 0;
}
