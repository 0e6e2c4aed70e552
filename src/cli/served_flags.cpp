#include "cli/served_flags.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/units.hpp"

namespace twinpod::cli {
namespace {

Result<void> read_numbers(const Arguments& arguments, ps::Choice& choice) {
  struct Number {
    std::string_view flag;
    int low;
    int* to;
  };
  for (const Number& number :
       {Number{"servers", 1, &choice.servers}, Number{"workers", 1, &choice.workers},
        Number{"copies", 1, &choice.copies}, Number{"group", 1, &choice.group},
        Number{"local-steps", 1, &choice.local_steps}, Number{"backup", 0, &choice.settings.backup_workers}}) {
    const Result<int> value = whole_number(arguments, number.flag, number.low, *number.to);
    if (!value) return tl::unexpected(value.error());
    *number.to = *value;
  }
  return {};
}

Result<void> read_pace(const Arguments& arguments, ps::Choice& choice) {
  const auto text = arguments.value("pace");
  if (!text) return {};
  const Result<double> seconds = parse_quantity(*text, Quantity::seconds);
  if (!seconds || *seconds < 0) return input_error(fmt::format("--pace {}: expected a time", *text), "--pace 50ms");
  choice.pace_s = *seconds;
  return {};
}

Result<void> agree(const ps::Choice& choice) {
  if (choice.copies > choice.servers) {
    return input_error(fmt::format("--copies {} on --servers {}", choice.copies, choice.servers),
                       fmt::format("--servers {} or more: each copy is on a server of its own", choice.copies));
  }
  if (choice.settings.backup_workers > 0 && choice.settings.mode != ps::Mode::sync) {
    return input_error(fmt::format("--backup {} with --mode {}", choice.settings.backup_workers, choice.mode),
                       "--mode sync: the other modes wait for nobody's push");
  }
  if (choice.settings.backup_workers >= choice.workers) {
    return input_error(fmt::format("--backup {} of --workers {}", choice.settings.backup_workers, choice.workers),
                       fmt::format("--backup {} at most: somebody's push must count", choice.workers - 1));
  }
  if (choice.straggler.worker >= choice.workers) {
    return input_error(fmt::format("--straggler names worker {} of {}", choice.straggler.worker, choice.workers),
                       fmt::format("0 to {}", choice.workers - 1));
  }
  return {};
}

}  // namespace

bool wants_servers(const Arguments& arguments) {
  return std::any_of(kServedFlags.begin(), kServedFlags.end(),
                     [&](const Flag& flag) { return arguments.has(flag.name); });
}

Result<ps::Choice> served_choice(const Arguments& arguments) {
  ps::Choice choice;
  choice.mode = arguments.value_or("mode", choice.mode);
  const Result<ps::Settings> mode = ps::parse_mode(choice.mode);
  if (!mode) return tl::unexpected(mode.error());
  choice.settings = *mode;
  if (Result<void> numbers = read_numbers(arguments, choice); !numbers) return tl::unexpected(numbers.error());
  choice.compress = arguments.value_or("compress", choice.compress);
  const Result<ps::Compression> compression = ps::parse_compression(choice.compress);
  if (!compression) return tl::unexpected(compression.error());
  choice.compression = *compression;
  const Result<ps::Straggler> straggler = ps::parse_straggler(arguments.value_or("straggler", "none"));
  if (!straggler) return tl::unexpected(straggler.error());
  choice.straggler = *straggler;
  if (Result<void> pace = read_pace(arguments, choice); !pace) return tl::unexpected(pace.error());
  if (Result<void> fits = agree(choice); !fits) return tl::unexpected(fits.error());
  return choice;
}

}  // namespace twinpod::cli
