// One job at a time saves to a store, and removes from it. Who only reads asks nobody.
//
//     Result<std::unique_ptr<StoreLock>> lock = lock_store(files, "runs/a");     // refused: by whom, where and since
//     when
//     ... save, prune ...
//     if (Result<void> held = lock->check(); !held) ...                          // somebody else has taken it over
//
// On a file system the kernel locks the file `lock`, and lets go of it when the process ends, however it does; over NFS
// and other shared file systems the server does that for all hosts. Object stores, and file systems that lock nothing,
// have no such thing: there the same file says who owns the store, and is written anew again and again. An owner on
// this host whose process is gone has let go at once; of one elsewhere that is known when it has been silent for long.
// One process holds it for all ranks of a job.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "store/files.hpp"

namespace twinpod::store {

inline constexpr std::string_view kLockFile = "lock";

struct LockSettings {
  std::chrono::milliseconds renew_every{10'000};
  std::chrono::milliseconds silent_for{40'000};  // then an owner is gone
};

class StoreLock {
 public:
  virtual ~StoreLock() = default;
  StoreLock() = default;
  StoreLock(const StoreLock&) = delete;
  StoreLock& operator=(const StoreLock&) = delete;
  // An error: another one has the store now, because we were silent for too long.
  virtual Result<void> check() = 0;
};

// Who saves, as the lock says it: one line of JSON, with a newline.
struct Owner {
  std::string host;
  std::string boot;       // of the host, drawn when it started
  std::string processes;  // which numbers of processes: containers have their own
  std::int64_t process = 0;
  std::int64_t started = 0;  // the process, in ticks since the host did
  std::string since;         // UTC
  std::string token;         // drawn for this one
  std::int64_t renewed = 0;  // how often
};
Owner this_process();
std::string to_text(const Owner& owner);
Owner parse_owner(std::string_view text);  // what it does not say stays empty
// "process 1234 on host a since 2026-11-18T20:11:54Z".
std::string to_string(const Owner& owner);

// REQUIRES: the folder is there (open_store). May wait, where locks are unknown, to see whether an owner still lives.
Result<std::unique_ptr<StoreLock>> lock_store(Files& files, const std::string& root, const LockSettings& settings = {});

}  // namespace twinpod::store
