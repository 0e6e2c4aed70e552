// How fast a folder's disk takes and gives.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "core/temporary.hpp"
#include "machine/machine.hpp"

namespace twinpod::machine {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::size_t kSmall = 4096;

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Result<void> put(int file, const std::vector<char>& data, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t step = write(file, data.data(), std::min(data.size(), bytes - done));
    if (step <= 0) return infeasible(fmt::format("writing failed: {}", std::strerror(errno)), "--disk another folder");
    done += static_cast<std::size_t>(step);
  }
  return {};
}

double read_rate(int file, std::vector<char>& data) {
  posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);  // or it would be the memory that is measured
  lseek(file, 0, SEEK_SET);
  const double start = now_s();
  double bytes = 0;
  for (ssize_t step = 0; (step = read(file, data.data(), data.size())) > 0;) bytes += static_cast<double>(step);
  return bytes / (now_s() - start);
}

// The middle of several, because a disk is slow now and then.
Result<double> fsync_seconds(int file, const std::vector<char>& data) {
  std::vector<double> times;
  for (int i = 0; i < 15; ++i) {
    const double start = now_s();
    if (Result<void> done = put(file, data, kSmall); !done) return tl::unexpected(done.error());
    fsync(file);
    times.push_back(now_s() - start);
  }
  std::nth_element(times.begin(), times.begin() + 7, times.end());
  return times[7];
}

}  // namespace

Result<void> measure_disk(const std::string& folder, double bytes, Machine& machine) {
  Result<NamelessFile> made = NamelessFile::in(folder);
  if (!made) return tl::unexpected(made.error());
  const int file = made->descriptor();
  std::vector<char> data(kPiece, 'x');
  const double start = now_s();
  if (Result<void> done = put(file, data, static_cast<std::size_t>(bytes)); !done) return done;
  fsync(file);
  machine.disk = {folder, bytes / (now_s() - start), read_rate(file, data), 0};
  const Result<double> seconds = fsync_seconds(file, data);
  if (!seconds) return tl::unexpected(seconds.error());
  machine.disk.fsync_s = *seconds;
  return {};
}

}  // namespace twinpod::machine
