#include "data/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace twinpod::data {

tl::unexpected<Error> file_error(const std::string& path, std::string message, std::string hint) {
  tl::unexpected<Error> error = input_error(std::move(message), std::move(hint));
  error.value().file = path;
  return error;
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) ::munmap(address_, size_);
}

Result<MappedFile> map_descriptor(const std::string& path, int descriptor) {
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) {
    return file_error(path, fmt::format("cannot be looked at: {}", std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) return file_error(path, "is no file that can be mapped");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return MappedFile();
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) return file_error(path, fmt::format("cannot be mapped: {}", std::strerror(errno)));
  return MappedFile(address, size);
}

Result<MappedFile> map_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return file_error(path, fmt::format("cannot be opened: {}", std::strerror(errno)));
  Result<MappedFile> file = map_descriptor(path, descriptor);
  ::close(descriptor);
  return file;
}

void read_ahead(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t start = first / page * page;
  // Only advice: when the system does not take it, the pages come later.
  static_cast<void>(::madvise(reinterpret_cast<void*>(start), first - start + bytes.size(), MADV_WILLNEED));
}

}  // namespace twinpod::data
