#include "cli/train_faults.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "core/rng.hpp"

namespace twinpod::cli {
namespace {

constexpr int kMostRandom = 220;  // processes have numbers of their own, and there are 255

template <typename Number>
bool read(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

tl::unexpected<Error> unreadable(std::string_view text) {
  return input_error(
      fmt::format("--fault {}: expected kill:server:PLACE@STEP, kill:worker:PLACE@STEP or random:COUNT", text),
      "--fault kill:server:1@20");
}

Result<Fault> parse_kill(std::string_view text, const ps::Choice& choice) {
  constexpr std::string_view kServer = "kill:server:";
  constexpr std::string_view kWorker = "kill:worker:";
  Fault fault;
  const std::size_t at = text.find('@');
  if (at == std::string_view::npos || (!text.starts_with(kServer) && !text.starts_with(kWorker)))
    return unreadable(text);
  fault.role = text.starts_with(kServer) ? ps::Role::server : ps::Role::worker;
  const std::string_view place = text.substr(kServer.size(), at - kServer.size());
  if (!read(place, fault.place) || !read(text.substr(at + 1), fault.step) || fault.step < 0) return unreadable(text);
  const int there = fault.role == ps::Role::server ? choice.servers : choice.workers;
  if (fault.place >= 0 && fault.place < there) return fault;
  return input_error(fmt::format("--fault {}: there is no {}", text, fault.place), fmt::format("0 to {}", there - 1));
}

void kill_at(const std::vector<ps::Process>& alive, const Fault& fault) {
  for (const ps::Process& one : alive) {
    if (one.role == fault.role && one.place == fault.place) kill(one.pid, SIGKILL);
  }
}

struct Killer {
  Faults faults;
  int steps = 0;
  Rng rng = Rng(1);
  int killed = 0;  // at random
};

// At even distances over the run; each waits until all copies are whole again, for one that is being made is none.
void kill_random(Killer& killer, const std::vector<ps::Process>& alive, std::int64_t steps) {
  if (killer.killed == killer.faults.random || alive.empty()) return;
  const double due = static_cast<double>(killer.steps) * (killer.killed + 1) / (killer.faults.random + 1);
  const bool whole = std::all_of(alive.begin(), alive.end(), [](const ps::Process& one) { return one.ready; });
  if (static_cast<double>(steps) < std::max(1.0, due) || !whole) return;
  kill(alive[killer.rng.below(alive.size())].pid, SIGKILL);
  ++killer.killed;
}

}  // namespace

Result<Faults> parse_faults(const std::string& text, const ps::Choice& choice) {
  Faults faults;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view one = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (one.starts_with("random:")) {
      if (!read(one.substr(7), faults.random) || faults.random < 1) return unreadable(one);
      continue;
    }
    const Result<Fault> fault = parse_kill(one, choice);
    if (!fault) return tl::unexpected(fault.error());
    faults.list.push_back(*fault);
  }
  if (faults.count() <= kMostRandom) return faults;
  return input_error(fmt::format("--fault {}: {} deaths", text, faults.count()),
                     fmt::format("{} at most", kMostRandom));
}

train::ServedWatch killer(const Faults& faults, int steps) {
  if (faults.count() == 0) return {};
  auto state = std::make_shared<Killer>(Killer{.faults = faults, .steps = steps});
  return [state](const std::vector<ps::Process>& alive, std::int64_t done) {
    std::erase_if(state->faults.list, [&](const Fault& fault) {
      if (done < fault.step) return false;
      kill_at(alive, fault);
      return true;
    });
    kill_random(*state, alive, done);
  };
}

}  // namespace twinpod::cli
