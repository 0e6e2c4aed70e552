// Non-blocking collectives: each communicator that starts one gets a thread that carries them out in order, so they
// progress while the caller computes.
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <thread>

#include "comm/handle.hpp"
#include "comm/world.hpp"

namespace twinpod::comm {

struct Worker {
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::shared_ptr<Handle::State>> queue;
  bool ends = false;
  std::atomic<int> pending = 0;
  std::thread thread;
};

namespace {

void work(Worker& worker, Communicator& communicator) {
  while (true) {
    std::unique_lock lock(worker.mutex);
    worker.wake.wait(lock, [&] { return worker.ends || !worker.queue.empty(); });
    if (worker.queue.empty()) return;
    const std::shared_ptr<Handle::State> state = std::move(worker.queue.front());
    worker.queue.pop_front();
    lock.unlock();
    state->result = perform(communicator, state->call);
    worker.pending.fetch_sub(1, std::memory_order_release);
    publish(state->finished, 1);
  }
}

// What was started is carried out before the thread ends.
void end_worker(Worker* worker) {
  {
    const std::lock_guard lock(worker->mutex);
    worker->ends = true;
  }
  worker->wake.notify_one();
  worker->thread.join();
  delete worker;
}

}  // namespace

bool has_pending(const Communicator& communicator) {
  return communicator.worker && communicator.worker->pending.load(std::memory_order_acquire) != 0;
}

Result<Handle> start(Communicator& communicator, const Call& call) {
  if (Result<void> fits = check(communicator, call); !fits) return tl::unexpected(fits.error());
  if (!communicator.worker) {
    communicator.worker = {new Worker, end_worker};
    communicator.worker->thread = std::thread([&communicator] { work(*communicator.worker, communicator); });
  }
  auto state = std::make_shared<Handle::State>();
  state->world = communicator.world;
  state->call = call;
  Worker& worker = *communicator.worker;
  worker.pending.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(worker.mutex);
    worker.queue.push_back(state);
  }
  worker.wake.notify_one();
  return Handle(std::move(state));
}

Handle::Handle(std::shared_ptr<State> state) : state_(std::move(state)) {}

Handle& Handle::operator=(Handle&& other) noexcept {
  if (state_ && this != &other) (void)wait();
  state_ = std::move(other.state_);
  return *this;
}

Handle::~Handle() {
  if (state_) (void)wait();
}

bool Handle::done() {
  if (!state_ || state_->waited) return true;
  if (!state_->message) return has_reached(state_->finished, 1);
  const Transport& transport = state_->world->transport;
  transport.progress(transport.state);
  return state_->message->done.load(std::memory_order_acquire);
}

Result<void> Handle::wait() {
  if (!state_) return {};
  State& state = *state_;
  if (state.waited) return state.result;
  state.waited = true;
  if (state.message) {
    state.result = finish_message(*state.world, *state.message, state.number);
    return state.result;
  }
  // The operation itself ends in time, so this wait does.
  Patience patience = state.world->patience;
  patience.timeout_ns = std::numeric_limits<std::int64_t>::max();
  patience.abort = &state.world->never_aborts;
  (void)wait_for(state.finished, 1, patience);
  return state.result;
}

}  // namespace twinpod::comm
