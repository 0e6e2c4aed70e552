// What a collective does (its verb) and how it goes about it (its algorithm), with their names in files and output.
//
//     name_of(Verb::all_reduce) == "all_reduce"
//     verb_named("all_recude").error().hint == "did you mean all_reduce?"
#pragma once

#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "spec/names.hpp"

namespace twinpod::collective {

enum class Verb {
  send,            // one rank to another
  broadcast,       // the root's buffer to all
  reduce,          // the sum of all buffers, at the root
  all_reduce,      // the sum of all buffers, at all
  reduce_scatter,  // part r of the sum, at rank r
  all_gather,      // part r is rank r's, all of them at all
  scatter,         // part r of the root's buffer to rank r
  gather,          // part r is rank r's, all of them at the root
  all_to_all,      // part j of rank i's buffer becomes part i of rank j's
  barrier,         // nobody leaves before all have come
};

enum class Algorithm {
  ring,
  bidirectional_ring,
  tree,
  double_tree,
  halving_doubling,
  bruck,
  hierarchical,
  rail,
  torus,
  direct,
  in_network,
};

// In the order of the enums.
inline constexpr spec::NameTable<Verb, 10> kVerbNames{{{"send", Verb::send},
                                                       {"broadcast", Verb::broadcast},
                                                       {"reduce", Verb::reduce},
                                                       {"all_reduce", Verb::all_reduce},
                                                       {"reduce_scatter", Verb::reduce_scatter},
                                                       {"all_gather", Verb::all_gather},
                                                       {"scatter", Verb::scatter},
                                                       {"gather", Verb::gather},
                                                       {"all_to_all", Verb::all_to_all},
                                                       {"barrier", Verb::barrier}}};

inline constexpr spec::NameTable<Algorithm, 11> kAlgorithmNames{{{"ring", Algorithm::ring},
                                                                 {"bidirectional_ring", Algorithm::bidirectional_ring},
                                                                 {"tree", Algorithm::tree},
                                                                 {"double_tree", Algorithm::double_tree},
                                                                 {"halving_doubling", Algorithm::halving_doubling},
                                                                 {"bruck", Algorithm::bruck},
                                                                 {"hierarchical", Algorithm::hierarchical},
                                                                 {"rail", Algorithm::rail},
                                                                 {"torus", Algorithm::torus},
                                                                 {"direct", Algorithm::direct},
                                                                 {"in_network", Algorithm::in_network}}};

constexpr std::string_view name_of(Verb value) { return spec::name_in(kVerbNames, value); }
constexpr std::string_view name_of(Algorithm value) { return spec::name_in(kAlgorithmNames, value); }

// The verb or algorithm of a name; refuses an unknown one with the nearest known.
Result<Verb> verb_named(std::string_view name);
Result<Algorithm> algorithm_named(std::string_view name);

// The algorithms that a verb has, in the order of the enum.
std::vector<Algorithm> algorithms_of(Verb verb);
bool supports(Verb verb, Algorithm algorithm);

}  // namespace twinpod::collective
