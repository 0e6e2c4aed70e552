#include "train/checkpoint.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "core/guarded.hpp"
#include "store/checkpoints.hpp"
#include "store/manifest.hpp"
#include "train/agree.hpp"

namespace twinpod::train {
namespace {

// Places in the votes.
constexpr std::size_t kBusy = 0;    // its thread is at work
constexpr std::size_t kFailed = 1;  // or has given up
constexpr std::size_t kWords = 2;   // of its part of the manifest

std::vector<std::span<const std::byte>> sources_of(const std::vector<store::HeldRegion>& regions) {
  std::vector<std::span<const std::byte>> sources;
  sources.reserve(regions.size());
  for (const store::HeldRegion& region : regions) sources.push_back(region.bytes);
  return sources;
}

// Adds its own life to a sum of seconds.
struct Stopwatch {
  explicit Stopwatch(double& sum) : sum_s(sum) {}
  ~Stopwatch() { sum_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  double& sum_s;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

// The thread takes what the rank leaves over: others wait for the rank.
void step_back() {
  constexpr int kNiceness = 10;
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNiceness);
}

// The thread that copies would only take turns with the rank.
bool has_one_core() {
  cpu_set_t allowed;
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) == 1;
}

Result<store::Manifest> manifest_of(const std::vector<std::string>& parts, const std::string& folder) {
  std::vector<store::Manifest> manifests;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    Result<store::Manifest> manifest = store::parse_manifest(part, folder);
    if (!manifest) return manifest;
    manifests.push_back(std::move(*manifest));
  }
  return store::joined_manifest(manifests);
}

// Ranks on other hosts may have written to a folder that only they see.
Result<void> check_seen(store::Files& files, const std::string& folder, const store::Manifest& manifest) {
  const Result<std::vector<std::string>> names = files.list(folder);
  if (!names) return tl::unexpected(names.error());
  for (const store::Shard& shard : manifest.shards) {
    if (std::find(names->begin(), names->end(), shard.file) != names->end()) continue;
    return infeasible(fmt::format("{}: rank 0 does not see {}, which another rank wrote", folder, shard.file),
                      "a store must be a folder that all hosts share");
  }
  return {};
}

}  // namespace

Saver::Saver(comm::Communicator& world, const CheckpointSettings& settings, std::vector<store::HeldRegion> regions,
             Opened opened)
    : world_(world),
      settings_(settings),
      regions_(std::move(regions)),
      snapshot_(sources_of(regions_)),
      locks_(std::move(opened.locks)),
      replicas_(std::move(opened.replicas)),
      number_(opened.number) {
  for (std::size_t i = 0; i < regions_.size(); ++i) regions_[i].bytes = snapshot_.bytes_of(i);
  report_.snapshot_bytes = snapshot_.bytes();
  if (comm::rank_of(world) == 0 && settings.tiers.size() > 1) drain_ = std::make_unique<store::Drain>(settings.tiers);
  thread_ = std::thread([this] { run(); });
}

Saver::~Saver() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Saver::run() {
  step_back();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || task_ != Task::none; });
    if (ending_) return;
    const Task task = task_;
    lock.unlock();
    const Result<std::string> part = task == Task::write ? guarded([&] { return write_part(); }) : std::string();
    const Result<void> committed = task == Task::commit ? guarded([&] { return commit(); }) : Result<void>();
    const Result<void> cleared = task == Task::clear ? guarded([&] { return clear(); }) : Result<void>();
    lock.lock();
    if (part && task == Task::write) part_ = *part;
    if (!cleared) side_error_ = cleared.error();
    task_ = Task::none;
    changed_.notify_all();
  }
}

// By the thread that saves.
void Saver::note_failure(Failed what, const Error& error) {
  const std::lock_guard lock(mutex_);
  failed_ = what;
  error_ = error;
}

Result<std::string> Saver::write_shard_to(store::Files& files, const std::string& folder) {
  if (regions_.empty()) return std::string();
  const Result<store::Manifest> part =
      store::write_shard(files, folder, store::shard_file(comm::rank_of(world_)), regions_);
  if (!part) return tl::unexpected(part.error());
  return store::to_text(*part);
}

Result<std::string> Saver::write_to_peers() {
  if (Result<void> pruned = replicas_->prune(replicated_); !pruned) return tl::unexpected(pruned.error());
  const Result<std::string> folder = replicas_->enter(name_);
  if (!folder) return folder;
  Result<std::string> written = write_shard_to(replicas_->files(), *folder);
  if (!written) return written;
  if (Result<void> ready = replicas_->prepare(name_, !written->empty()); !ready) return tl::unexpected(ready.error());
  return written;
}

Result<std::string> Saver::write_part() {
  snapshot_.complete();
  Result<std::string> written = std::string();
  if (to_peers_) written = write_to_peers();
  if (!written) note_failure(Failed::peers, written.error());
  if (!written || tier_ == kNoTier) return written;
  const Result<void> entered = store::enter_checkpoint(*tier().files, tier().root, name_);
  written = entered ? write_shard_to(*tier().files, fmt::format("{}/{}", tier().root, name_))
                    : tl::unexpected(entered.error());
  if (!written) note_failure(Failed::tier, written.error());
  return written;
}

Result<void> Saver::commit() {
  const Result<void> kept = to_peers_ ? replicas_->commit(name_, manifest_) : Result<void>();
  if (!kept) note_failure(Failed::peers, kept.error());
  if (!kept || tier_ == kNoTier || comm::rank_of(world_) != 0) return kept;
  const Result<void> committed = commit_on_tier();
  if (!committed) note_failure(Failed::tier, committed.error());
  return committed;
}

Result<void> Saver::commit_on_tier() {
  const std::string folder = fmt::format("{}/{}", tier().root, name_);
  Result<store::Manifest> manifest = manifest_of(parts_, folder);
  if (!manifest) return tl::unexpected(manifest.error());
  if (Result<void> seen = check_seen(*tier().files, folder, *manifest); !seen) return seen;
  if (tier_ < locks_.size()) {
    if (Result<void> ours = locks_[tier_]->check(); !ours) return ours;
  }
  if (Result<void> synced = tier().files->sync_folder(tier().root); !synced) return synced;
  manifest->state = state_;
  Result<void> committed = store::commit_checkpoint(*tier().files, tier().root, name_, std::move(*manifest));
  if (!committed) return committed;
  if (drain_) {
    drain_->add(name_, last_, tier_);
    return {};
  }
  const Result<int> pruned = store::prune_checkpoints(*tier().files, tier().root, tier().keep);
  if (pruned) return {};
  const std::lock_guard lock(mutex_);
  side_error_ = pruned.error();  // it is saved all the same
  return {};
}

// Removes what failed saves wrote: this one's, and what could not be removed then. Nobody writes meanwhile.
Result<void> Saver::clear() {
  if (replicas_ && replicated_ != store::checkpoint_number(name_)) replicas_->drop(name_);
  if (comm::rank_of(world_) != 0) return {};
  for (const std::size_t failed : failed_tiers_) debris_.emplace_back(failed, name_);
  Result<void> done;
  std::erase_if(debris_, [&](const auto& left) {
    const store::Tier& of = settings_.tiers[left.first];
    const Result<void> dropped = store::drop_unfinished(*of.files, of.root, left.second);
    if (!dropped && done) done = dropped;
    return dropped.has_value();
  });
  // Where older ones could not be removed because nothing could be written, there may be no room for the next one
  // either. A drain prunes by itself: it knows what is not copied yet.
  for (const std::size_t failed : drain_ ? std::vector<std::size_t>() : failed_tiers_) {
    const store::Tier& of = settings_.tiers[failed];
    const Result<int> pruned = store::prune_checkpoints(*of.files, of.root, of.keep);
    if (!pruned && done) done = tl::unexpected(pruned.error());
  }
  return done;
}

// What went wrong beside the save itself: older ones could not be removed, a slower tier did not take it.
void Saver::note_errors() {
  const std::lock_guard lock(mutex_);
  if (side_error_) report_.errors.push_back(to_string(*side_error_));
  side_error_.reset();
  if (!drain_) return;
  std::vector<std::string> errors;
  const std::vector<store::TierStatus> tiers = drain_->status();
  for (std::size_t i = 0; i < tiers.size(); ++i) {
    for (const std::string& error : tiers[i].errors)
      errors.push_back(fmt::format("tier {}: {}", settings_.tiers[i].name, error));
  }
  for (; drain_errors_ < errors.size(); ++drain_errors_) report_.errors.push_back(errors[drain_errors_]);
}

Saver::Votes Saver::votes() const {
  const std::lock_guard lock(mutex_);
  Votes votes{};
  votes[kBusy] = task_ != Task::none || (phase_ == Phase::replicating && !replicas_->done()) ? 1 : 0;
  const Failed drained = drain_ && drain_->fatal() ? Failed::drain : Failed::nothing;
  votes[kFailed] = static_cast<std::int32_t>(std::max(failed_, drained));
  votes[kWords] = static_cast<std::int32_t>((part_.size() + sizeof(std::int32_t) - 1) / sizeof(std::int32_t));
  return votes;
}

void Saver::start(Task task) {
  {
    const std::lock_guard lock(mutex_);
    task_ = task;
  }
  changed_.notify_all();
}

void Saver::begin(const store::TrainingState& state, bool last) {
  const Stopwatch watch(report_.stall_s);
  if (phase_ != Phase::idle) {
    ++report_.passed_over;
    return;
  }
  const bool first = newest_.empty();
  last_ = last;
  to_peers_ = replicas_ != nullptr;
  tier_ = !replicas_ || last || first || number_ % settings_.tiers.front().every == 0 ? 0 : kNoTier;
  name_ = store::checkpoint_name(number_++);
  state_ = state;
  phase_ = Phase::writing;
  snapshot_.begin();
  if (has_one_core()) snapshot_.complete();
  start(Task::write);
}

void Saver::before_update() {
  if (phase_ != Phase::writing && phase_ != Phase::replicating) return;
  const Stopwatch watch(report_.stall_s);
  if (phase_ == Phase::writing) snapshot_.complete();
  if (phase_ == Phase::replicating) replicas_->look();
}

// The parts of all ranks, each filled up to so many words.
Result<void> Saver::collect_parts(std::int32_t words) {
  const auto each = static_cast<std::size_t>(words) * sizeof(std::int32_t);
  const bool first = comm::rank_of(world_) == 0;
  const auto ranks = static_cast<std::size_t>(comm::size_of(world_));
  std::string own;
  {
    const std::lock_guard lock(mutex_);
    own = std::move(part_);
    part_.clear();
  }
  own.resize(each, '\0');
  std::string all = own;
  if (ranks > 1 && words > 0) {
    all.resize(first ? ranks * each : 0);
    const comm::Call call{.verb = comm::Verb::gather,
                          .input = own.data(),
                          .output = all.data(),
                          .count = static_cast<std::size_t>(words),
                          .type = comm::ElementType::i32};
    if (Result<void> done = comm::run(world_, call); !done) return done;
  }
  parts_.clear();
  for (std::size_t i = 0; i < all.size(); i += each) parts_.push_back(all.substr(i, each));
  for (std::string& part : parts_) part.resize(part.find_last_not_of('\0') + 1);
  return {};
}

// An error of this rank is known to all at the next step, before a byte is sent.
Result<void> Saver::begin_replicas() {
  const Result<Result<void>> begun = replicas_->begin();
  if (!begun) return tl::unexpected(begun.error());
  if (!*begun) note_failure(Failed::peers, begun->error());
  return {};
}

// Every rank's folder has it, whichever of them is lost.
Result<void> Saver::share_manifest() {
  manifest_.clear();
  if (comm::rank_of(world_) == 0) {
    Result<store::Manifest> manifest = manifest_of(parts_, name_);
    if (manifest) {
      manifest->number = store::checkpoint_number(name_);
      manifest->state = state_;
      manifest_ = store::to_text(*manifest);
    } else {
      note_failure(Failed::peers, manifest.error());
    }
  }
  return share_text(world_, 0, manifest_);
}

// The next tier that takes this one.
std::size_t Saver::next_tier(std::size_t from) const {
  const std::int64_t number = store::checkpoint_number(name_);
  for (std::size_t i = from + 1; from != kNoTier && i < settings_.tiers.size(); ++i) {
    if (last_ || number % std::max(settings_.tiers[i].every, 1) == 0) return i;
  }
  return kNoTier;
}

// The same save, from the same copy, where nothing failed yet. What failed with the peers did not fail with the tier.
void Saver::try_elsewhere(Failed failed) {
  const bool written = phase_ == Phase::replicating || phase_ == Phase::committing;
  if (failed == Failed::tier && written && to_peers_) {
    replicated_ = store::checkpoint_number(name_);  // on all ranks: peers are committed to before the tier
    to_peers_ = false;
  }
  if (failed == Failed::peers) to_peers_ = false;
  only_commits_ = failed == Failed::peers && written && tier_ != kNoTier;
  if (tier_ != kNoTier && !only_commits_) failed_tiers_.push_back(tier_);
  if (failed == Failed::tier) tier_ = next_tier(tier_);
  phase_ = Phase::clearing;
  if (comm::rank_of(world_) == 0 || replicas_) start(Task::clear);
}

void Saver::end_clearing() {
  failed_tiers_.clear();
  if (std::exchange(only_commits_, false)) {
    phase_ = Phase::committing;
    if (comm::rank_of(world_) == 0) start(Task::commit);
  } else if (to_peers_ || tier_ != kNoTier) {
    phase_ = Phase::writing;
    start(Task::write);
  } else if (replicated_ == store::checkpoint_number(name_)) {
    end_save();
  } else {
    phase_ = Phase::idle;
    ++report_.failed;
  }
}

// "", where a run has but one tier.
std::string Saver::where(Failed failed) const {
  if (failed == Failed::peers) return " in the memory of peers";
  return settings_.tiers.size() == 1 || tier_ == kNoTier ? "" : " on tier " + tier().name;
}

Result<std::optional<Error>> Saver::give_up(Failed failed) {
  if (replicas_) {
    if (Result<void> ended = replicas_->end(); !ended) return tl::unexpected(ended.error());
  }
  Result<void> own;
  {
    const std::lock_guard lock(mutex_);
    const std::optional<Error> fatal = drain_ ? drain_->fatal() : std::nullopt;
    if (fatal) own = tl::unexpected(*fatal);
    if (error_) own = tl::unexpected(*error_);
    error_.reset();
    failed_ = Failed::nothing;
    part_.clear();
  }
  const bool by_drain = failed == Failed::drain;
  Result<std::optional<Error>> agreed = agree(world_, own);
  if (!agreed || !*agreed) return agreed;
  Error& error = **agreed;
  error.kind = ErrorKind::infeasible;
  if (!by_drain) error.message = fmt::format("checkpoint of step {}{}: {}", state_.step, where(failed), error.message);
  if (by_drain || settings_.tiers.front().on_error == store::OnError::stop) {
    report_.errors.push_back(to_string(error));
    ++report_.failed;
    phase_ = Phase::idle;
    return agreed;
  }
  try_elsewhere(failed);
  report_.errors.push_back(to_string(error) + (tier_ == kNoTier ? "" : "\n  it goes to tier " + tier().name));
  return std::nullopt;
}

Result<std::optional<Error>> Saver::advance(const Votes& agreed) {
  note_errors();
  const bool threads_rest = phase_ == Phase::idle || phase_ == Phase::replicating || agreed[kBusy] == 0;
  if (agreed[kFailed] != 0 && threads_rest) return give_up(static_cast<Failed>(agreed[kFailed]));
  if (phase_ == Phase::idle || !threads_rest) return std::nullopt;
  const Stopwatch watch(report_.stall_s);
  Result<void> moved;
  if (phase_ == Phase::replicating && agreed[kBusy] != 0) {
    moved = replicas_->move_on();
  } else if (phase_ == Phase::writing) {
    moved = collect_parts(agreed[kWords]);
    if (moved && to_peers_) moved = begin_replicas();
    phase_ = to_peers_ ? Phase::replicating : Phase::committing;
  } else if (phase_ == Phase::replicating) {
    moved = share_manifest();
    phase_ = Phase::committing;
  } else if (phase_ == Phase::clearing) {
    end_clearing();
    return std::nullopt;
  } else {
    end_save();
    return std::nullopt;
  }
  if (!moved) return tl::unexpected(moved.error());
  if (phase_ == Phase::committing && (comm::rank_of(world_) == 0 || to_peers_)) start(Task::commit);
  return std::nullopt;
}

void Saver::end_save() {
  phase_ = Phase::idle;
  ++report_.saved;
  report_.newest_step = state_.step;
  if (tier_ != kNoTier) {
    newest_ = name_;
    newest_tier_ = tier_;
  }
  if (to_peers_) replicated_ = store::checkpoint_number(name_);
}

// Nobody would ever free it.
void Saver::empty_first_tier() {
  const store::Tier& first = settings_.tiers.front();
  const std::vector<store::TierStatus> tiers = drain_->status();
  const auto has_newest = [&](const store::TierStatus& one) { return one.newest == newest_; };
  if (newest_.empty() || std::none_of(tiers.begin() + 1, tiers.end(), has_newest)) return;
  if (const Result<void> emptied = store::remove_store(*first.files, first.root); !emptied)
    report_.errors.push_back(to_string(emptied.error()));
}

Result<std::optional<Error>> Saver::finish(bool at_end) {
  constexpr std::chrono::milliseconds kLookEvery(20);
  bool told_last = !at_end;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kLookEvery, [&] { return task_ == Task::none; });
    }
    if (phase_ == Phase::idle && !told_last) {
      if (drain_ && !newest_.empty()) drain_->add(newest_, true, newest_tier_);
      told_last = true;
    }
    const Votes own = votes();
    const bool drains = drain_ && drain_->busy();
    std::array<std::int32_t, 4> all = {own[0], own[1], own[2], drains ? 1 : 0};
    const Result<std::optional<Error>> agreed = agree(world_, {}, all);
    if (!agreed) return agreed;
    if (phase_ == Phase::idle && all[3] == 0 && all[kFailed] == 0 && told_last) break;
    Result<std::optional<Error>> advanced = advance({all[0], all[1], all[2]});
    if (!advanced || *advanced) return advanced;
    if (phase_ == Phase::idle && drains) std::this_thread::sleep_for(kLookEvery);
  }
  note_errors();
  if (at_end && comm::rank_of(world_) == 0) {
    const std::string on_slowest = drain_ ? drain_->status().back().newest : newest_;
    report_.lacks_newest = on_slowest.empty() || on_slowest != name_;
  }
  if (at_end && drain_ && settings_.empties_first) empty_first_tier();
  if (at_end && replicas_ && report_.saved > 0 && is_on_tiers()) replicas_->remove_all();
  return std::nullopt;
}

}  // namespace twinpod::train
