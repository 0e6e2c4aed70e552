#include "store/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "store/aligned.hpp"
#include "store/checkpoints.hpp"
#include "store/checksum.hpp"
#include "store/extents.hpp"
#include "store/load.hpp"
#include "store/stream_copy.hpp"

namespace twinpod::store {
namespace {

constexpr std::int64_t kColumns = 2048;
constexpr std::int64_t kRows = 4096;  // of a tensor: 32 MiB

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Runs it for each rank at once; the first error counts.
Result<double> timed(std::size_t ranks, const std::function<Result<void>(std::size_t rank)>& body) {
  std::vector<Result<void>> done(ranks);
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) threads.emplace_back([&, rank] { done[rank] = body(rank); });
  for (std::thread& thread : threads) thread.join();
  for (const Result<void>& one : done) {
    if (!one) return tl::unexpected(one.error());
  }
  return seconds_since(start);
}

// Of each extent; an error when they are all 1, which never is, but the compiler cannot know and has to compute them.
Result<void> sum_extents(std::span<const std::byte> bytes) {
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < bytes.size(); i += kExtentBytes) {
    all ^= checksum(bytes.subspan(i, std::min<std::size_t>(kExtentBytes, bytes.size() - i)));
  }
  return all == 1 ? Result<void>(infeasible("checksums of 1")) : Result<void>();
}

// What a shard's writer does with bytes, and no more; with checksums or without.
Result<void> write_bare(Files& files, const File& file, std::span<const std::byte> bytes, bool summed) {
  std::array<AlignedBytes, kMovesInFlight> buffers;
  std::int64_t offset = 0;
  Result<void> done;
  for (std::size_t i = 0; done && !bytes.empty(); ++i) {
    AlignedBytes& buffer = buffers[i % buffers.size()];
    if (buffer.size() == 0) buffer = AlignedBytes(kMoveBytes);
    done = files.wait(file, buffers.size() - 1);
    const std::size_t count = std::min(bytes.size(), buffer.size());
    std::memcpy(buffer.data(), bytes.data(), count);
    if (done && summed) done = sum_extents(buffer.first(count));
    if (done) done = files.begin_write(file, offset, buffer.first(count));
    bytes = bytes.subspan(count);
    offset += static_cast<std::int64_t>(count);
  }
  const Result<void> rest = files.wait(file, 0);
  if (done) done = rest;
  return done ? files.sync(file) : done;
}

Result<void> read_bare(Files& files, const File& file, std::span<std::byte> bytes, bool summed) {
  std::array<AlignedBytes, kMovesInFlight> buffers;
  for (AlignedBytes& buffer : buffers) buffer = AlignedBytes(kMoveBytes);
  const std::size_t moves = (bytes.size() + kMoveBytes - 1) / kMoveBytes;
  const auto length = [&](std::size_t i) { return std::min<std::size_t>(kMoveBytes, bytes.size() - i * kMoveBytes); };
  std::size_t begun = 0;
  Result<void> done;
  for (std::size_t i = 0; done && i < moves; ++i) {
    for (; done && begun < moves && begun < i + buffers.size(); ++begun) {
      done = files.begin_read(file, static_cast<std::int64_t>(begun) * kMoveBytes,
                              buffers[begun % buffers.size()].first(length(begun)));
    }
    if (done) done = files.wait(file, begun - i - 1);
    if (done && summed) done = sum_extents(buffers[i % buffers.size()].first(length(i)));
    if (done) stream_copy(bytes.data() + i * kMoveBytes, buffers[i % buffers.size()].data(), length(i));
  }
  const Result<void> rest = files.wait(file, 0);
  return done ? rest : done;
}

std::string bare_path(const std::string& root, std::size_t rank) { return fmt::format("{}/bare-{}", root, rank); }

// What was removed just now keeps the disk busy for a while (ext4 tells it which blocks are free).
Result<void> settle(Files& files, const std::string& folder) {
  Result<void> synced = files.sync_folder(folder);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  return synced;
}

}  // namespace

StoreMeasurer::StoreMeasurer(Files& files, std::string root, const MeasureRequest& request)
    : files_(files), root_(std::move(root)), ranks_(static_cast<std::size_t>(std::max(1, request.ranks))) {
  const std::int64_t most = kRows * kColumns;
  const std::int64_t elements =
      std::max(kColumns, request.bytes / 4 / std::max(1, request.ranks) / kColumns * kColumns);
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    rank.values.resize(static_cast<std::size_t>(elements));
    std::uint32_t bits = static_cast<std::uint32_t>(r) + 1;
    for (float& value : rank.values) value = static_cast<float>(bits = bits * 1664525U + 1013904223U);
    for (std::int64_t at = 0; at < elements; at += most) {
      const Dims shape = {std::min(most, elements - at) / kColumns, kColumns};
      const auto part =
          std::as_bytes(std::span(rank.values))
              .subspan(static_cast<std::size_t>(at) * 4, static_cast<std::size_t>(num_elements(shape)) * 4);
      rank.regions.push_back({fmt::format("rank.{}.tensor.{}", r, at / most), "F32", shape, whole(shape), part});
    }
  }
}

std::int64_t StoreMeasurer::bytes() const {
  return static_cast<std::int64_t>(ranks_.size() * ranks_.front().values.size() * sizeof(float));
}

double StoreMeasurer::checksum_seconds() const {
  const Result<double> seconds = timed(ranks_.size(), [&](std::size_t rank) -> Result<void> {
    return sum_extents(std::as_bytes(std::span(ranks_[rank].values)));
  });
  return seconds.value_or(0);
}

Result<double> StoreMeasurer::save(std::string& name, Manifest& manifest) {
  const auto start = std::chrono::steady_clock::now();
  Result<std::string> begun = begin_checkpoint(files_, root_);
  if (!begun) return tl::unexpected(begun.error());
  name = *begun;
  std::vector<Manifest> parts(ranks_.size());
  const Result<double> written = timed(ranks_.size(), [&](std::size_t rank) -> Result<void> {
    Result<Manifest> part =
        write_shard(files_, root_ + "/" + name, shard_file(static_cast<int>(rank)), ranks_[rank].regions);
    if (!part) return tl::unexpected(part.error());
    parts[rank] = std::move(*part);
    return {};
  });
  if (!written) return written;
  Result<Manifest> joined = joined_manifest(parts);
  if (!joined) return tl::unexpected(joined.error());
  manifest = std::move(*joined);
  if (Result<void> done = commit_checkpoint(files_, root_, name, manifest); !done) return tl::unexpected(done.error());
  return seconds_since(start);
}

Result<double> StoreMeasurer::load(const std::string& name, const Manifest& manifest) {
  return timed(ranks_.size(), [&](std::size_t rank) -> Result<void> {
    std::vector<WantedRegion> wanted;
    std::span<std::byte> rest = std::as_writable_bytes(std::span(ranks_[rank].values));
    for (const HeldRegion& held : ranks_[rank].regions) {
      wanted.push_back({held.tensor, held.dtype, held.region, rest.first(held.bytes.size())});
      rest = rest.subspan(held.bytes.size());
    }
    const Result<std::int64_t> loaded = load_regions(files_, root_ + "/" + name, manifest, wanted);
    if (!loaded) return tl::unexpected(loaded.error());
    return {};
  });
}

Result<double> StoreMeasurer::bare(bool write, bool summed) {
  return timed(ranks_.size(), [&](std::size_t rank) -> Result<void> {
    const std::string path = bare_path(root_, rank);
    const Result<File> file = write ? files_.create(path) : files_.open(path);
    if (!file) return tl::unexpected(file.error());
    const Result<void> done =
        write ? write_bare(files_, *file, std::as_bytes(std::span(ranks_[rank].values)), summed)
              : read_bare(files_, *file, std::as_writable_bytes(std::span(ranks_[rank].values)), summed);
    const Result<void> closed = files_.close(*file);
    return done ? closed : done;
  });
}

Result<StoreSeconds> StoreMeasurer::save_and_load() {
  StoreSeconds seconds;
  std::string name;
  Manifest manifest;
  const auto measure = [&](double& to, const Result<double>& found) {
    to = found.value_or(0);
    return found ? Result<void>() : Result<void>(tl::unexpected(found.error()));
  };
  Result<void> done = settle(files_, root_);
  if (done) done = measure(seconds.save, save(name, manifest));
  if (done) done = measure(seconds.load, load(name, manifest));
  if (done) done = remove_checkpoint(files_, root_, name);
  if (done) done = files_.remove(fmt::format("{}/{}", root_, kLatestFile));
  for (const bool summed : {false, true}) {
    if (done) done = settle(files_, root_);
    if (done) done = measure(summed ? seconds.summed_write : seconds.bare_write, bare(true, summed));
    if (done) done = measure(summed ? seconds.summed_read : seconds.bare_read, bare(false, summed));
    for (std::size_t rank = 0; done && rank < ranks_.size(); ++rank) done = files_.remove(bare_path(root_, rank));
  }
  if (done) done = settle(files_, root_);
  if (!done) return tl::unexpected(done.error());
  return seconds;
}

}  // namespace twinpod::store
