// Values of flags that hold more than one thing: lists and ranges, switches both ways, changes to try, durations.
//
//     whole_numbers("tp", "2,4,8", 1, 1024)               {2, 4, 8}
//     whole_numbers("tp", "1..64:x2", 1, 1024)            {1, 2, 4, 8, 16, 32, 64}
//     names("schedule", "1f1b,zb-v", spec::kScheduleNames) {one_f_one_b, zb_v}
//     switches("sp", "on,off")                            {0, 1}
//     what_if("what-if", "network=2x,device=h100-sxm")    {{network, 2}, {device, 1, "h100-sxm"}}
//     duration("within", "60d")                           5,184,000 s
//
// `flag` is the flag's name without dashes, for messages. Every refusal is an input error that says what was found,
// what was expected and, where there is one, the nearest that works.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "spec/names.hpp"

namespace twinpod::cli {

// Numbers, ranges `a..b` and geometric ranges `a..b:xN` (a, a·N, a·N² ... up to b), with commas between them. In rising
// order, each once.
Result<std::vector<int>> whole_numbers(std::string_view flag, std::string_view text, int low, int high);

// Indices of the names that a list with commas holds, in the order of the list, each once.
Result<std::vector<std::size_t>> name_indices(std::string_view flag, std::string_view text,
                                              const std::vector<std::string>& known);

template <typename E, std::size_t N>
Result<std::vector<E>> names(std::string_view flag, std::string_view text, const spec::NameTable<E, N>& table) {
  std::vector<std::string> known;
  for (const auto& [name, unused] : table) known.emplace_back(name);
  const Result<std::vector<std::size_t>> indices = name_indices(flag, text, known);
  if (!indices) return tl::unexpected(indices.error());
  std::vector<E> values;
  for (const std::size_t index : *indices) values.push_back(table[index].second);
  return values;
}

// `on`, `off`, `true`, `false`, with commas between them: 0 and 1 in rising order.
Result<std::vector<int>> switches(std::string_view flag, std::string_view text);

// What a what-if changes.
enum class Change {
  flops,             // peaks of the device
  memory,            // bytes of the device
  memory_bandwidth,  // of the device
  network,           // scale-up and scale-out together
  scale_up,
  scale_out,
  latency,   // of both networks
  host,      // the device's link to the host's memory
  price,     // of a device's hour
  failures,  // how often parts fail
  device,    // another device in the place of the job's
};

inline constexpr spec::NameTable<Change, 11> kChangeNames{{{"flops", Change::flops},
                                                           {"memory", Change::memory},
                                                           {"memory_bandwidth", Change::memory_bandwidth},
                                                           {"network", Change::network},
                                                           {"scale_up", Change::scale_up},
                                                           {"scale_out", Change::scale_out},
                                                           {"latency", Change::latency},
                                                           {"host", Change::host},
                                                           {"price", Change::price},
                                                           {"failures", Change::failures},
                                                           {"device", Change::device}}};

struct WhatIf {
  Change change = Change::flops;
  double factor = 1;  // by which the figure is multiplied
  std::string name;   // with Change::device: the entry of the catalog, not looked up yet
};

// `key=factor` or `device=NAME`, with commas between them; a factor is `2x`, `1.5x` or a plain number. Above 0;
// latency, price and failures may be 0. No key twice.
Result<std::vector<WhatIf>> what_if(std::string_view flag, std::string_view text);

// `60d`, `12h`, `2w`, `90 days` in seconds, above 0. A number without a unit is refused: nobody means seconds.
Result<double> duration(std::string_view flag, std::string_view text);

}  // namespace twinpod::cli
