#include "store/lock.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>

#include "store/lock_owner.hpp"

namespace twinpod::store {
namespace {

constexpr std::int64_t kMaxOwnerBytes = 4096;

std::string path_of(const std::string& root) { return fmt::format("{}/{}", root, kLockFile); }

tl::unexpected<Error> held_by(const std::string& root, const std::string& who) {
  return infeasible(fmt::format("{}: another job saves there: {}", root, who),
                    "wait until it has ended, or save to another folder; `twinpod checkpoint ls` and what else only "
                    "reads may be used meanwhile");
}

// "": it cannot be read, or is not there.
std::string text_at(Files& files, const std::string& path) {
  const Result<Bytes> bytes = read_whole(files, path, kMaxOwnerBytes);
  return bytes ? std::string(text_of(*bytes)) : "";
}

class KernelLock final : public StoreLock {
 public:
  KernelLock(Files& files, File file) : files_(files), file_(std::move(file)) {}
  ~KernelLock() override {
    if (file_.id >= 0) (void)files_.close(file_);
  }
  Result<void> check() override { return {}; }
  // For messages alone, so a full disk is no reason to refuse. The file is longer when it was another's.
  void say_who() {
    if (file_.id < 0) return;
    std::string text = to_text(this_process());
    constexpr std::size_t kLength = 400;
    if (text.size() < kLength) text.insert(text.size() - 1, kLength - text.size(), ' ');
    (void)write_all(files_, file_, 0, bytes_of(text));
  }

 private:
  Files& files_;
  File file_;
};

// Where nothing is locked: the file is ours while it holds our token.
class OwnerLock final : public StoreLock {
 public:
  OwnerLock(Files& files, const std::string& root, const LockSettings& settings, Owner owner)
      : files_(files), root_(root), path_(path_of(root)), settings_(settings), owner_(std::move(owner)) {
    heard_ = std::chrono::steady_clock::now();
    thread_ = std::thread([this] { run(); });
  }
  ~OwnerLock() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
    if (parse_owner(text_at(files_, path_)).token == owner_.token) (void)files_.remove(path_);
  }
  Result<void> check() override {
    const std::lock_guard lock(mutex_);
    if (!by_other_.empty()) return held_by(root_, by_other_);
    if (std::chrono::steady_clock::now() - heard_ < settings_.silent_for) return {};
    return infeasible(
        fmt::format("{}: it could not be said for {} s that this job saves there, so that another one may", root_,
                    static_cast<double>(settings_.silent_for.count()) / 1000));
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, settings_.renew_every, [&] { return ending_; }) && by_other_.empty()) {
      lock.unlock();
      const std::string text = text_at(files_, path_);
      const Owner found = parse_owner(text);
      const bool lost = !text.empty() && found.token != owner_.token;
      ++owner_.renewed;
      const bool said = !lost && write_new_file(files_, path_, bytes_of(to_text(owner_))).has_value();
      lock.lock();
      if (lost) by_other_ = to_string(found);
      if (said) heard_ = std::chrono::steady_clock::now();
    }
  }

  Files& files_;
  const std::string root_;
  const std::string path_;
  const LockSettings settings_;
  Owner owner_;  // of the thread alone, but for its token
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ending_ = false;
  std::string by_other_;
  std::chrono::steady_clock::time_point heard_;  // when it was last written
  std::thread thread_;
};

// Refused when the name is taken.
Result<void> claim(Files& files, const std::string& path, const std::string& text) {
  const Result<File> file = files.create(path);
  if (!file) return tl::unexpected(file.error());
  Result<void> done = write_all(files, *file, 0, bytes_of(text));
  if (done) done = files.sync(*file);
  const Result<void> closed = files.close(*file);
  return done ? closed : done;
}

// Whether the owner that stands there is gone. One on another host is watched until it was silent for long enough.
bool is_gone(Files& files, const std::string& path, const std::string& text, const LockSettings& settings) {
  const Owner owner = parse_owner(text);
  if (is_on_this_host(owner)) return !is_alive(owner);
  const auto until = std::chrono::steady_clock::now() + settings.silent_for;
  const auto pause = std::max<std::chrono::milliseconds>(settings.renew_every / 10, std::chrono::milliseconds(1));
  while (std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(pause);
    if (text_at(files, path) != text) return false;
  }
  return true;
}

Result<std::unique_ptr<StoreLock>> own_store(Files& files, const std::string& root, const LockSettings& settings) {
  const std::string path = path_of(root);
  const Owner owner = this_process();
  Result<void> claimed = claim(files, path, to_text(owner));
  if (!claimed) {
    const Result<bool> there = files.exists(path);
    if (!there || !*there) return tl::unexpected(claimed.error());
    const std::string text = text_at(files, path);
    // Our own, when the answer to the claim was lost.
    const bool ours = parse_owner(text).token == owner.token;
    if (!ours && !is_gone(files, path, text, settings)) return held_by(root, to_string(parse_owner(text)));
    if (!ours) claimed = write_new_file(files, path, bytes_of(to_text(owner)));
    if (!ours && !claimed) return tl::unexpected(claimed.error());
    // Two may have found that it is gone: the one who wrote last has it, and both see that after a moment.
    if (!ours) std::this_thread::sleep_for(settings.renew_every / 10);
    const Owner found = parse_owner(text_at(files, path));
    if (found.token != owner.token) return held_by(root, to_string(found));
  }
  return std::make_unique<OwnerLock>(files, root, settings, owner);
}

}  // namespace

Result<std::unique_ptr<StoreLock>> lock_store(Files& files, const std::string& root, const LockSettings& settings) {
  const Result<Locked> locked = files.lock(path_of(root));
  if (!locked) return tl::unexpected(locked.error());
  if (locked->outcome == Locked::Outcome::unknown) return own_store(files, root, settings);
  if (locked->outcome == Locked::Outcome::of_another)
    return held_by(root, to_string(parse_owner(text_at(files, path_of(root)))));
  auto lock = std::make_unique<KernelLock>(files, locked->file);
  lock->say_who();
  return lock;
}

}  // namespace twinpod::store
