#include "ps/straggler.hpp"

#include <fmt/format.h>

#include <charconv>

#include "core/rng.hpp"

namespace twinpod::ps {
namespace {

template <typename Number>
bool read(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<Straggler> parse_straggler(std::string_view text) {
  Straggler straggler;
  if (text == "none") return straggler;
  const std::size_t first = text.find(':');
  const std::string_view who = text.substr(0, first);
  const std::string_view behind = first == std::string_view::npos ? "" : text.substr(first + 1);
  const std::size_t second = behind.find(':');
  bool good = who == "any" || (read(who, straggler.worker) && straggler.worker >= 0);
  good = good && read(behind.substr(0, second), straggler.factor) && straggler.factor >= 1 && straggler.factor <= 1e6;
  if (second != std::string_view::npos) {
    good = good && read(behind.substr(second + 1), straggler.share) && straggler.share >= 0 && straggler.share <= 1;
  }
  if (good) return straggler;
  return input_error(fmt::format("straggler {}: expected worker:factor or worker:factor:share", text),
                     "0:2 (worker 0 is always twice as slow) or any:3:0.1 (each, three times, in one step of ten)");
}

double slowdown(const Straggler& straggler, int worker, std::int64_t clock) {
  if (straggler.worker != kAnyWorker && straggler.worker != worker) return 1;
  // One number for each worker and clock, whoever asks in whatever order.
  std::uint64_t state = straggler.seed;
  state = splitmix64(state) ^ static_cast<std::uint64_t>(worker);
  state = splitmix64(state) ^ static_cast<std::uint64_t>(clock);
  const double drawn = static_cast<double>(splitmix64(state) >> 11U) * 0x1p-53;
  return drawn < straggler.share ? straggler.factor : 1;
}

}  // namespace twinpod::ps
