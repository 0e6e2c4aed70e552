#include "ps/job_key.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "comm/wait.hpp"

namespace twinpod::ps {
namespace {

constexpr std::size_t kDigits = 2 * std::tuple_size_v<JobKey>;
constexpr int kRetryUs = 20'000;

constexpr const char* kHowToMake = "host 0 makes one where there is none; copy it to the others with its mode: scp -p";

tl::unexpected<Error> wrong(const std::string& path, const std::string& what, const std::string& hint) {
  return tl::unexpected(Error{ErrorKind::input, what, hint, path, 0, 0});
}

tl::unexpected<Error> failed(const std::string& path, const char* what, const std::string& hint = "") {
  return wrong(path, fmt::format("the job's key cannot be {}: {}", what, std::strerror(errno)), hint);
}

std::optional<unsigned> digit_of(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  return std::nullopt;
}

std::optional<JobKey> key_in(std::string_view text) {
  if (text.size() == kDigits + 1 && text.back() == '\n') text.remove_suffix(1);
  if (text.size() != kDigits) return std::nullopt;
  JobKey key{};
  for (std::size_t i = 0; i < kDigits; ++i) {
    const std::optional<unsigned> digit = digit_of(text[i]);
    if (!digit) return std::nullopt;
    key[i / 2] = static_cast<std::byte>(std::to_integer<unsigned>(key[i / 2]) << 4U | *digit);
  }
  return key;
}

std::string text_of(const JobKey& key) {
  std::string text;
  for (const std::byte one : key) text += fmt::format("{:02x}", std::to_integer<unsigned>(one));
  return text + "\n";
}

Result<void> check_owner(const std::string& path, const struct stat& file) {
  if (!S_ISREG(file.st_mode)) return wrong(path, "the job's key is to be in a file, and this is none", kHowToMake);
  if (file.st_uid != geteuid()) {
    return wrong(path, fmt::format("the job's key belongs to user {}, and this is user {}", file.st_uid, geteuid()),
                 "a copy of your own");
  }
  const unsigned mode = file.st_mode & 07777U;
  if ((mode & 077U) == 0) return {};
  return wrong(path, fmt::format("others may get at the job's key: its mode is {:04o}, expected 0600", mode),
               fmt::format("chmod 600 {}, if nobody has read it; else remove it, and a new one is made", path));
}

struct Descriptor {
  int file = -1;
  explicit Descriptor(int opened) : file(opened) {}
  ~Descriptor() {
    if (file >= 0) close(file);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};

// `unfinished`: it is not there, or nothing is in it yet.
Result<JobKey> read_once(const std::string& path, bool& unfinished) {
  const Descriptor opened(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  unfinished = opened.file < 0 && errno == ENOENT;
  if (opened.file < 0) return failed(path, "read", errno == ELOOP ? "the file itself, not a link to it" : kHowToMake);
  struct stat about {};
  if (fstat(opened.file, &about) != 0) return failed(path, "examined");
  if (Result<void> right = check_owner(path, about); !right) return tl::unexpected(right.error());
  std::array<char, kDigits + 2> text{};
  const ssize_t got = read(opened.file, text.data(), text.size());
  if (got < 0) return failed(path, "read");
  unfinished = got == 0;
  const std::optional<JobKey> key = key_in({text.data(), static_cast<std::size_t>(got)});
  if (key) return *key;
  return wrong(path,
               fmt::format("{} bytes that are no key: expected {} digits of 0 to 9 and a to f", about.st_size, kDigits),
               "without the file a new one is made");
}

}  // namespace

JobKey random_key() {
  JobKey key{};
  if (getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) std::abort();  // never for so few bytes
  return key;
}

Result<JobKey> read_key_file(const std::string& path, double wait_s) {
  const std::int64_t end = comm::now_ns() + static_cast<std::int64_t>(wait_s * 1e9);
  while (true) {
    bool unfinished = false;
    Result<JobKey> key = read_once(path, unfinished);
    if (key || !unfinished || comm::now_ns() >= end) return key;
    usleep(kRetryUs);
  }
}

Result<JobKey> make_key_file(const std::string& path) {
  const Descriptor made(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (made.file < 0 && errno == EEXIST) return read_key_file(path, 1);
  if (made.file < 0) return failed(path, "made");
  const JobKey key = random_key();
  const std::string text = text_of(key);
  if (write(made.file, text.data(), text.size()) == static_cast<ssize_t>(text.size())) return key;
  const int reason = errno;
  unlink(path.c_str());
  errno = reason;
  return failed(path, "written");
}

JobKey pair_key(const JobKey& key, NodeId from, NodeId to) {
  const std::string text = fmt::format("twinpod parameter server 1: {} calls {}", from, to);
  JobKey made{};
  unsigned int length = made.size();
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), reinterpret_cast<unsigned char*>(made.data()), &length);
  return made;
}

}  // namespace twinpod::ps
