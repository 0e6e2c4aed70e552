#include "store/direct_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "store/aligned.hpp"

namespace twinpod::store {
namespace {

// A file that grows with each write is written one write at a time (ext4); one that has its room already is not.
constexpr std::int64_t kAllocateBytes = 256 << 20;

std::size_t whole_blocks(std::int64_t offset, const std::byte* data, std::size_t bytes) {
  const bool aligned =
      offset % static_cast<std::int64_t>(kBlockBytes) == 0 && reinterpret_cast<std::uintptr_t>(data) % kBlockBytes == 0;
  return aligned ? bytes / kBlockBytes * kBlockBytes : 0;
}

RingResult moved_at_once(const RingMove& move) {
  ssize_t moved = -1;
  do {
    moved = move.write ? ::pwrite(move.fd, move.data, move.bytes, move.offset)
                       : ::pread(move.fd, move.data, move.bytes, move.offset);
  } while (moved < 0 && errno == EINTR);
  if (moved < 0) return {move, 0, errno};
  return {move, static_cast<std::size_t>(moved), 0};
}

bool is_same_file(int one, int other) {
  struct stat a {};
  struct stat b {};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

DirectFiles::Direct* DirectFiles::direct(const File& file) {
  const std::lock_guard lock(mutex_);
  const auto found = direct_.find(file.id);
  return found == direct_.end() ? nullptr : found->second.get();
}

Result<File> DirectFiles::add(const Result<File>& file, int flags) {
  if (!file) return file;
  const Result<File> second = open_as(file->path, flags | O_DIRECT | O_NONBLOCK, "opened");
  if (!second) return file;  // without it, everything goes through the page cache
  if (!is_same_file(file->id, second->id)) {
    ::close(second->id);
    (void)PosixFiles::close(*file);
    return io_error(file->path, "opened, as another file has its name now", EBUSY);
  }
  auto entry = std::make_unique<Direct>();
  entry->fd = second->id;
  if (options_.ring) entry->ring = make_ring();
  const std::lock_guard lock(mutex_);
  direct_[file->id] = std::move(entry);
  return file;
}

Result<File> DirectFiles::create(const std::string& path) { return add(PosixFiles::create(path), O_WRONLY); }

Result<File> DirectFiles::open(const std::string& path) { return add(PosixFiles::open(path), O_RDONLY); }

Result<void> DirectFiles::close(const File& file) {
  Result<void> waited = wait(file, 0);
  std::unique_ptr<Direct> entry;
  {
    const std::lock_guard lock(mutex_);
    const auto found = direct_.find(file.id);
    if (found != direct_.end()) entry = std::move(found->second);
    if (found != direct_.end()) direct_.erase(found);
  }
  if (entry) ::close(entry->fd);  // the other descriptor says whether all is well
  Result<void> closed = PosixFiles::close(file);
  return waited ? closed : waited;
}

Result<void> DirectFiles::sync(const File& file) {
  if (Result<void> waited = wait(file, 0); !waited) return waited;
  const Direct* entry = direct(file);
  if (entry != nullptr && entry->allocated > entry->end && ::ftruncate(file.id, entry->end) != 0) {
    return io_error(file.path, "cut to its length", errno);
  }
  return PosixFiles::sync(file);
}

// A hint: where it is refused, writes say whether there is room.
void DirectFiles::allocate(Direct& to, std::int64_t end) {
  if (end <= to.allocated) return;
  const std::int64_t begin = std::max(to.allocated, to.end);
  const std::int64_t wanted = std::max(end, begin + kAllocateBytes) - begin;
  to.allocated = ::fallocate(to.fd, 0, begin, wanted) == 0 ? begin + wanted : to.allocated;
}

std::size_t DirectFiles::move_direct(Direct& to, const File& file, const RingMove& move, Result<void>& done) {
  if (move.bytes == 0) return 0;
  if (to.ring && to.ring->under_way() < kRingDepth && to.ring->add(move) == 0) {
    to.begun.push_back(true);
    return move.bytes;
  }
  done = finish_move(file, moved_at_once(move));
  return move.bytes;
}

// The rest of a short one goes through the page cache, which knows no blocks.
Result<void> DirectFiles::finish_move(const File& file, const RingResult& result) {
  const RingMove& move = result.move;
  if (result.code != 0) return io_error(file.path, move.write ? "written" : "read", result.code);
  if (result.moved == move.bytes) return {};
  const std::span<std::byte> rest(move.data + result.moved, move.bytes - result.moved);
  const std::int64_t offset = move.offset + static_cast<std::int64_t>(result.moved);
  return move.write ? write_all(*this, file, offset, rest) : read_all(*this, file, offset, rest);
}

Result<void> DirectFiles::begin_write(const File& file, std::int64_t offset, std::span<const std::byte> bytes) {
  Direct* to = direct(file);
  if (to == nullptr) return PosixFiles::begin_write(file, offset, bytes);
  const std::size_t before = to->begun.size();
  const std::int64_t end = offset + static_cast<std::int64_t>(bytes.size());
  auto* data = const_cast<std::byte*>(bytes.data());  // it is only read from
  const std::size_t blocks = whole_blocks(offset, data, bytes.size());
  if (blocks > 0) allocate(*to, offset + static_cast<std::int64_t>(blocks));
  Result<void> done;
  const std::size_t moved =
      move_direct(*to, file, {.fd = to->fd, .write = true, .offset = offset, .data = data, .bytes = blocks}, done);
  to->end = std::max(to->end, end);
  if (done) done = write_all(*this, file, offset + static_cast<std::int64_t>(moved), bytes.subspan(moved));
  if (to->begun.size() == before) to->begun.push_back(false);
  return done;
}

Result<void> DirectFiles::begin_read(const File& file, std::int64_t offset, std::span<std::byte> bytes) {
  Direct* to = direct(file);
  if (to == nullptr) return PosixFiles::begin_read(file, offset, bytes);
  const std::size_t before = to->begun.size();
  const std::size_t blocks = whole_blocks(offset, bytes.data(), bytes.size());
  Result<void> done;
  const std::size_t moved =
      move_direct(*to, file, {.fd = to->fd, .offset = offset, .data = bytes.data(), .bytes = blocks}, done);
  if (done) done = read_all(*this, file, offset + static_cast<std::int64_t>(moved), bytes.subspan(moved));
  if (to->begun.size() == before) to->begun.push_back(false);
  return done;
}

Result<void> DirectFiles::end_first(Direct& to, const File& file) {
  const bool in_ring = to.begun.front();
  to.begun.pop_front();
  return in_ring ? finish_move(file, to.ring->wait_for_first()) : Result<void>();
}

Result<void> DirectFiles::wait(const File& file, std::size_t left) {
  Direct* to = direct(file);
  Result<void> done;
  while (to != nullptr && to->begun.size() > (done ? left : 0)) {
    Result<void> one = end_first(*to, file);
    if (done && !one) done = one;
  }
  return done;
}

std::string way_of_moving(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_DIRECT | O_CLOEXEC, 0600);
  if (fd < 0) return "through the page cache";
  ::close(fd);
  return make_ring() ? "direct, io_uring" : "direct, one after the other (io_uring is refused)";
}

}  // namespace twinpod::store
