#include "data/corpus.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "data/mapped_file.hpp"
#include "data/token_writer.hpp"
#include "data/tokens.hpp"

namespace twinpod::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kPieceBytes = 1 << 20;

Result<void> add_file(const fs::path& path, std::vector<TextFile>& files) {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path, error);
  if (error) return file_error(path.string(), fmt::format("cannot be looked at: {}", error.message()));
  files.push_back({path.lexically_normal().string(), static_cast<std::int64_t>(bytes)});
  return {};
}

bool hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

Result<void> walk(const std::string& folder, std::vector<TextFile>& files) {
  std::error_code error;
  fs::recursive_directory_iterator at(folder, error);
  std::string place = folder;
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    place = at->path().string();
    if (hidden(at->path())) {
      at.disable_recursion_pending();
    } else if (fs::is_regular_file(at->symlink_status(error)) && !error) {
      if (Result<void> added = add_file(at->path(), files); !added) return added;
    }
    if (error) break;
  }
  if (error) return file_error(place, fmt::format("cannot be walked: {}", error.message()));
  return {};
}

Result<void> add_path(const std::string& path, std::vector<TextFile>& files) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return file_error(path, status.type() == fs::file_type::not_found
                                ? "is not there, expected a text file or a folder of them"
                                : fmt::format("cannot be looked at: {}", error.message()));
  }
  if (fs::is_directory(status)) return walk(path, files);
  if (fs::is_regular_file(status)) return add_file(path, files);
  return file_error(path, "is neither a file nor a folder");
}

// Closes what it holds.
struct OpenFile {
  explicit OpenFile(const std::string& path) : descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~OpenFile() {
    if (descriptor >= 0) ::close(descriptor);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  const int descriptor;
};

// Calls body(piece) for one piece of a file after the other, as long as it returns true.
Result<void> for_each_piece(const std::string& path, const std::function<Result<bool>(std::string_view)>& body) {
  const OpenFile file(path);
  if (file.descriptor < 0) return file_error(path, fmt::format("cannot be opened: {}", std::strerror(errno)));
  std::vector<char> buffer(kPieceBytes);
  while (true) {
    const ssize_t bytes = ::read(file.descriptor, buffer.data(), buffer.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return file_error(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (bytes == 0) return {};
    const Result<bool> more = body({buffer.data(), static_cast<std::size_t>(bytes)});
    if (!more) return tl::unexpected(more.error());
    if (!*more) return {};
  }
}

enum class Content { text, empty, not_text };

Result<Content> content_of(const std::string& path) {
  Content content = Content::empty;
  const Result<void> read = for_each_piece(path, [&](std::string_view piece) -> Result<bool> {
    const bool has_nul = piece.find('\0') != std::string_view::npos;
    content = has_nul ? Content::not_text : Content::text;
    return !has_nul;
  });
  if (!read) return tl::unexpected(read.error());
  return content;
}

// The file is read a second time: it may be larger than the memory, and a document is not begun that must be undone.
Result<void> write_document(const std::string& path, TokenWriter& writer, Prepared& done) {
  std::vector<std::int32_t> tokens;
  const Result<void> read = for_each_piece(path, [&](std::string_view piece) -> Result<bool> {
    tokens.clear();
    append_bytes(piece, tokens);
    done.text_bytes += static_cast<std::int64_t>(piece.size());
    if (const Result<void> written = writer.append(tokens); !written) return tl::unexpected(written.error());
    return true;
  });
  if (!read) return read;
  tokens = {kEndOfDocument};
  const Result<void> written = writer.append(tokens);
  writer.end_document();
  return written;
}

Result<void> add_document(const TextFile& file, TokenWriter& writer, Prepared& done) {
  const Result<Content> content = content_of(file.path);
  if (!content) return tl::unexpected(content.error());
  ++done.files;
  if (*content == Content::not_text) ++done.not_text;
  if (*content == Content::empty) ++done.empty;
  return *content == Content::text ? write_document(file.path, writer, done) : Result<void>{};
}

Result<void> require_text(const Prepared& done) {
  if (done.documents > 0) return {};
  return input_error(fmt::format("the corpus has no text: {} files, {} of them empty and {} with NUL bytes", done.files,
                                 done.empty, done.not_text),
                     "name a text file or a folder that has some, such as docs/");
}

}  // namespace

Result<std::vector<TextFile>> find_text_files(const std::vector<std::string>& paths) {
  std::vector<TextFile> files;
  for (const std::string& path : paths) {
    if (Result<void> added = add_path(path, files); !added) return tl::unexpected(added.error());
  }
  std::sort(files.begin(), files.end(), [](const TextFile& a, const TextFile& b) { return a.path < b.path; });
  const auto same = [](const TextFile& a, const TextFile& b) { return a.path == b.path; };
  files.erase(std::unique(files.begin(), files.end(), same), files.end());
  return files;
}

namespace {

Result<Prepared> write_documents(const std::vector<TextFile>& files, TokenWriter& writer,
                                 const std::function<void(std::int64_t)>& advance) {
  Prepared done;
  for (const TextFile& file : files) {
    if (Result<void> added = add_document(file, writer, done); !added) return tl::unexpected(added.error());
    if (advance) advance(file.bytes);
  }
  done.documents = writer.num_documents();
  done.tokens = writer.num_tokens();
  if (Result<void> right = require_text(done); !right) return tl::unexpected(right.error());
  return done;
}

}  // namespace

Result<TokenData> tokens_of_text(const std::vector<TextFile>& files, const std::string& name) {
  TokenWriter writer(name, type_for_vocabulary(kBytesVocabulary));
  if (Result<void> opened = writer.open_nameless(fs::temp_directory_path().string()); !opened)
    return tl::unexpected(opened.error());
  if (Result<Prepared> written = write_documents(files, writer, {}); !written) return tl::unexpected(written.error());
  Result<TokenData> data = writer.keep_nameless();
  if (data) data->of_text = true;
  return data;
}

Result<Prepared> prepare(const std::vector<TextFile>& files, const PrepareRequest& request,
                         const std::function<void(std::int64_t)>& advance) {
  TokenWriter writer(request.output, type_for_vocabulary(kBytesVocabulary));
  if (Result<void> opened = writer.open(request.replace); !opened) return tl::unexpected(opened.error());
  Result<Prepared> done = write_documents(files, writer, advance);
  if (!done) return done;
  if (Result<void> written = writer.finish(); !written) return tl::unexpected(written.error());
  for (const char* suffix : {".bin", ".idx"}) {
    std::error_code error;
    done->output_bytes += static_cast<std::int64_t>(fs::file_size(name_without_suffix(request.output) + suffix, error));
  }
  return done;
}

}  // namespace twinpod::data
