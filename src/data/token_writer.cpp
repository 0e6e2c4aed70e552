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
    : name_(name_without_suffix(name)), type_(type), bin_(name_ + ".bin"), index_(name_ + ".idx") {}

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
  Result<FutureFile> file = FutureFile::at(bin_);
  if (!file) return keep(tl::unexpected(file.error()));
  bin_file_ = std::move(*file);
  descriptor_ = bin_file_.descriptor();
  return {};
}

Result<void> TokenWriter::open_nameless(const std::string& folder) {
  for (NamelessFile* const file : {&nameless_bin_, &nameless_index_}) {
    Result<NamelessFile> made = NamelessFile::in(folder);
    if (!made) return keep(tl::unexpected(made.error()));
    *file = std::move(*made);
  }
  descriptor_ = nameless_bin_.descriptor();
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
  return keep(write_all(bin_, descriptor_, buffer_));
}

void TokenWriter::end_document() {
  open_sequence_ = false;
  bounds_.push_back(static_cast<std::int64_t>(lengths_.size()));
}

Result<void> TokenWriter::write_index(int descriptor) {
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
  return write_all(index_, descriptor, bytes);
}

// An old index must never stand beside new tokens, so it goes first.
Result<void> TokenWriter::replace_files(FutureFile& index_file) {
  if (::unlink(index_.c_str()) != 0 && errno != ENOENT) return system_error(index_, "removed");
  if (Result<void> named = bin_file_.publish(); !named) return named;
  if (Result<void> named = index_file.publish(); !named) return named;
  return settle_folder_of(index_);
}

Result<void> TokenWriter::finish() {
  if (!failed_) return failed_;
  if (open_sequence_) end_document();
  Result<FutureFile> index_file = FutureFile::at(index_);
  if (!index_file) return keep(tl::unexpected(index_file.error()));
  Result<void> done = bin_file_.settle();
  if (done) done = write_index(index_file->descriptor());
  if (done) done = index_file->settle();
  if (done) done = replace_files(*index_file);
  return keep(done);
}

Result<TokenData> TokenWriter::keep_nameless() {
  if (!failed_) return tl::unexpected(failed_.error());
  if (open_sequence_) end_document();
  if (Result<void> done = write_index(nameless_index_.descriptor()); !done) return tl::unexpected(done.error());
  Result<MappedFile> index = map_descriptor(index_, nameless_index_.descriptor());
  if (!index) return tl::unexpected(index.error());
  Result<MappedFile> tokens = map_descriptor(bin_, nameless_bin_.descriptor());
  if (!tokens) return tl::unexpected(tokens.error());
  return tokens_of(name_, std::move(*index), std::move(*tokens));
}

}  // namespace twinpod::data
