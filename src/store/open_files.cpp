#include "store/open_files.hpp"

#include <sys/vfs.h>

#include <algorithm>
#include <array>

#include "store/posix_files.hpp"

namespace twinpod::store {
namespace {

// f_type of statfs(2) of file systems that other hosts see, too: NFS, SMB (three of them), Lustre, Ceph, GPFS, BeeGFS,
// FUSE (which most others use), 9p.
constexpr std::array<std::uint32_t, 10> kSharedTypes = {0x6969,     0x517B,     0xFF534D42, 0xFE534D42, 0x0BD00BD0,
                                                        0x00C36400, 0x47504653, 0x19830326, 0x65735546, 0x01021997};

// A folder that is not there yet will be where the nearest one above it is.
std::string tier_of_folder(std::string path) {
  struct statfs status {};
  while (::statfs(path.c_str(), &status) != 0) {
    const std::size_t slash = path.find_last_of('/');
    if (path == "." || path == "/") return "local";
    path = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  }
  const auto type = static_cast<std::uint32_t>(status.f_type);
  return std::find(kSharedTypes.begin(), kSharedTypes.end(), type) == kSharedTypes.end() ? "local" : "shared";
}

}  // namespace

Result<OpenedStore> open_files(const std::string& address) {
  std::string root = address;
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  if (root.empty()) return input_error("the address of a store is empty", "write a folder, such as runs/a");
  return OpenedStore{std::make_shared<PosixFiles>(), root, tier_of_folder(root)};
}

}  // namespace twinpod::store
