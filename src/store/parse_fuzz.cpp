// Headers of shards and manifests that somebody else wrote: any bytes are read or refused, and what is read can be
// written.
#include <fmt/format.h>

#include <cstdlib>

#include "store/checksum.hpp"
#include "store/files.hpp"
#include "store/manifest.hpp"
#include "store/safetensors.hpp"

namespace {

using namespace twinpod::store;

// The checksum is made right, or no input would get past it.
void read_body(std::string_view body) {
  const std::string start = "{\"twinpod_checkpoint\":1,\"checksum\":\"";
  std::string text = fmt::format("{}{:016x}\",\"body\":{}}}\n", start, 0, body);
  text.replace(start.size(), 16, fmt::format("{:016x}", checksum(bytes_of(text))));
  const twinpod::Result<Manifest> manifest = parse_manifest(text, "fuzz");
  if (!manifest) return;
  const twinpod::Result<Manifest> again = parse_manifest(to_text(*manifest), "fuzz");
  if (!again || *again != *manifest) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  (void)parse_safetensors(bytes, static_cast<std::int64_t>(size) + 24, "fuzz");
  read_body(text_of(bytes));
  return 0;
}
