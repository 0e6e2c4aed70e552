// libFuzzer: any bytes are a schedule that is proved, or are refused with a file and a line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "collective/msccl.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace twinpod;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<collective::Schedule> schedule = collective::from_msccl(text, "a.xml");
  if (schedule) return 0;
  const bool right =
      schedule.error().file == "a.xml" && schedule.error().line >= 1 && !schedule.error().message.empty();
  if (!right) std::abort();
  return 0;
}
