// libFuzzer: any bytes are a sound Program or are refused with the name of their file; never a crash. The first two
// bytes say where the part that all ranks share ends.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "chakra/archive.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace twinpod;
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t cut = static_cast<std::size_t>(data[0] * 256 + data[1]) % (text.size() + 1);
  const Result<program::Program> program =
      chakra::program_of(text.substr(0, cut), {std::string(text.substr(cut))}, "step.0.et");
  if (!program && (program.error().file != "step.0.et" || program.error().message.empty())) std::abort();
  return 0;
}
