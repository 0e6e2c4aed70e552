#include "data/token_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "data/mapped_file.hpp"
#include "data/tokens.hpp"

namespace twinpod::data {
namespace {

tl::unexpected<Error> system_error(const std::string& path, std::string_view what) {
  return file_error(path, fmt::format("cannot be {}: {}", what, std::strerror(errno)));
}

Result<int> create(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) return system_error(path, "created");
  return descriptor;
}

Result<void> write_all(const std::string& path, int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(path, "written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return {};
}

// To the disk, then closed.
Result<void> settle(const std::string& path, int descriptor) {
  const bool synced = ::fsync(descriptor) == 0;
  const int error = errno;
  const bool closed = ::close(descriptor) == 0;
  if (!synced) errno = error;
  if (!synced || !closed) return system_error(path, "brought to the disk");
  return {};
}

// The names in a folder are on the disk, too.
Result<void> settle_folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return system_error(folder, "opened");
  return settle(folder, descriptor);
}

// In the same folder, so that renaming is one step; with the process in it, so that two writers do not meet.
std::string temporary_name(const std::string& path) { return fmt::format("{}.partial-{}", path, ::getpid()); }

template <typename T>
void append_value(std::vector<std::byte>& bytes, T value) {
  const auto* first = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), first, first + sizeof value);
}

template <typename T>
void convert_as(std::vector<std::byte>& bytes, std::span<const std::int32_t> tokens) {
  bytes.resize(tokens.size() * sizeof(T));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const T token = static_cast<T>(tokens[i]);
    std::memcpy(bytes.data() + i * sizeof(T), &token, sizeof token);
  }
}

void convert(TokenType type, std::span<const std::int32_t> tokens, std::vector<std::byte>& bytes) {
  switch (type) {
    case TokenType::u8:
      return convert_as<std::uint8_t>(bytes, tokens);
    case TokenType::i8:
      return convert_as<std::int8_t>(bytes, tokens);
    case TokenType::u16:
      return convert_as<std::uint16_t>(bytes, tokens);
    case TokenType::i16:
      return convert_as<std::int16_t>(bytes, tokens);
    case TokenType::i32:
      return convert_as<std::int32_t>(bytes, tokens);
    case TokenType::i64:
      return convert_as<std::int64_t>(bytes, tokens);
  }
}

}  // namespace

TokenWriter::TokenWriter(const std::string& name, TokenType type)
    : name_(name_without_suffix(name)),
      type_(type),
      bin_(name_ + ".bin"),
      index_(name_ + ".idx"),
      temporary_bin_(temporary_name(bin_)),
      temporary_index_(temporary_name(index_)) {}

TokenWriter::~TokenWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  std::remove(temporary_bin_.c_str());
}

Result<void> TokenWriter::keep(Result<void> result) {
  if (!result && failed_) failed_ = result;
  return result;
}

Result<void> TokenWriter::open(bool replace) {
  for (const std::string& path : {bin_, index_}) {
    struct stat status = {};
    if (!replace && ::stat(path.c_str(), &status) == 0) {
      return keep(file_error(path, "is already there", "--force replaces it; or write to another name with --output"));
    }
  }
  const Result<int> descriptor = create(temporary_bin_);
  if (!descriptor) return keep(tl::unexpected(descriptor.error()));
  descriptor_ = *descriptor;
  return {};
}

Result<void> TokenWriter::append(std::span<const std::int32_t> tokens) {
  if (!failed_) return failed_;
  num_tokens_ += static_cast<std::int64_t>(tokens.size());
  for (auto left = static_cast<std::int64_t>(tokens.size()); left > 0;) {
    // A document that is too long for one length goes on in another sequence.
    if (!open_sequence_ || lengths_.back() == kLongestSequence) lengths_.push_back(0);
    open_sequence_ = true;
    const std::int64_t taken = std::min(left, kLongestSequence - lengths_.back());
    lengths_.back() += static_cast<std::int32_t>(taken);
    left -= taken;
  }
  convert(type_, tokens, buffer_);
  return keep(write_all(temporary_bin_, descriptor_, buffer_));
}

void TokenWriter::end_document() {
  open_sequence_ = false;
  bounds_.push_back(static_cast<std::int64_t>(lengths_.size()));
}

Result<void> TokenWriter::write_index() {
  std::vector<std::byte> bytes;
  bytes.reserve(kIndexHeaderBytes + 12 * lengths_.size() + 8 * bounds_.size());
  for (const char c : kIndexMagic) append_value(bytes, c);
  append_value(bytes, std::uint64_t{1});
  append_value(bytes, static_cast<std::uint8_t>(type_));
  append_value(bytes, static_cast<std::uint64_t>(lengths_.size()));
  append_value(bytes, static_cast<std::uint64_t>(bounds_.size()));
  for (const std::int32_t length : lengths_) append_value(bytes, length);
  std::int64_t place = 0;
  for (const std::int32_t length : lengths_) {
    append_value(bytes, place);
    place += length * bytes_of(type_);
  }
  for (const std::int64_t bound : bounds_) append_value(bytes, bound);
  const Result<int> descriptor = create(temporary_index_);
  if (!descriptor) return tl::unexpected(descriptor.error());
  const Result<void> written = write_all(temporary_index_, *descriptor, bytes);
  const Result<void> settled = settle(temporary_index_, *descriptor);
  return written ? settled : written;
}

// An old index must never stand beside new tokens, so it goes first.
Result<void> TokenWriter::replace_files() {
  if (::unlink(index_.c_str()) != 0 && errno != ENOENT) return system_error(index_, "removed");
  if (std::rename(temporary_bin_.c_str(), bin_.c_str()) != 0) return system_error(bin_, "written");
  if (std::rename(temporary_index_.c_str(), index_.c_str()) != 0) return system_error(index_, "written");
  return settle_folder_of(index_);
}

Result<void> TokenWriter::finish() {
  if (!failed_) return failed_;
  if (open_sequence_) end_document();
  Result<void> done = settle(temporary_bin_, descriptor_);
  descriptor_ = -1;
  if (done) done = write_index();
  if (done) done = replace_files();
  if (!done) {
    std::remove(temporary_bin_.c_str());
    std::remove(temporary_index_.c_str());
  }
  return keep(done);
}

}  // namespace twinpod::data
