// Max-min fair rates of the flows that move at a moment. Used by the event loop.
//
// Progressive filling (Bertsekas and Gallager, "Data Networks", 2nd edition, section 6.5.2): all rates grow together;
// when a link is full, or a flow has its own maximum, those flows stop growing and the rest go on. The links are taken
// from a heap by the level at which they would be full, so a filling costs (visits) · log(links).
//
//     FairShare share(kinds);
//     enter(share, flow); ... leave(share, other);
//     for (std::uint32_t changed : refresh(share)) ... share.rate[changed]
#pragma once

#include <cstdint>
#include <vector>

#include "sim/flow_kinds.hpp"

namespace twinpod::sim {

struct FairShare {
  explicit FairShare(const Kinds& all_kinds);

  const Kinds* kinds;
  std::vector<double> rate;  // bytes/s of one flow of each kind; 0: does not move
  std::vector<std::vector<std::uint32_t>>
      on_link;                               // kinds of flows that move over each kind of link, with multiplicity 1
  std::vector<std::uint32_t> touched_links;  // since the last refresh
  std::vector<std::uint32_t> entered;

  // Of a filling.
  std::vector<std::uint32_t> links;    // that are affected
  std::vector<std::uint32_t> flows;    // that are affected
  std::vector<char> link_seen;         // by kind of link; all 0 between fillings
  std::vector<char> flow_growing;      // by kind of flow; all 0 between fillings
  std::vector<double> free_capacity;   // by kind of link
  std::vector<double> growing_load;    // by kind of link: loads of the flows that still grow
  std::vector<std::uint32_t> changed;  // flows with a new rate
  std::vector<double> rate_before;     // of the affected flows
};

void enter(FairShare& share, std::uint32_t flow);
void leave(FairShare& share, std::uint32_t flow);

// New rates for the flows that share links with those that entered or left, however indirectly; the others keep theirs.
// Flows whose rate changed. A flow that no link and no maximum holds gets an infinite rate.
const std::vector<std::uint32_t>& refresh(FairShare& share);

}  // namespace twinpod::sim
