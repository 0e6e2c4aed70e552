#include "ps/shards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "kernel/optimizer.hpp"
#include "ps/bytes.hpp"

namespace twinpod::ps {
namespace {

using Loads = std::map<NodeId, std::int64_t>;  // elements that each server holds

bool holds(const Chain& chain, NodeId server) {
  return std::any_of(chain.begin(), chain.end(), [&](const Member& m) { return m.server == server; });
}

bool all_synced(const Chain& chain) {
  return std::all_of(chain.begin(), chain.end(), [](const Member& m) { return m.synced; });
}

// Of those that do not hold the shard; kNobody: all do.
NodeId least_loaded(const Loads& loads, const Chain& chain) {
  NodeId best = kNobody;
  for (const auto& [server, load] : loads) {
    if (!holds(chain, server) && (best == kNobody || load < loads.at(best))) best = server;
  }
  return best;
}

std::size_t most_loaded_place(const Loads& loads, const Chain& chain) {
  std::size_t most = 0;
  for (std::size_t i = 1; i < chain.size(); ++i) {
    if (loads.at(chain[i].server) > loads.at(chain[most].server)) most = i;
  }
  return most;
}

// Off with what is one too many, once all have a copy.
void trim(const Shard& shard, std::size_t copies, Chain& chain, Loads& loads) {
  while (chain.size() > copies && all_synced(chain)) {
    const std::size_t most = most_loaded_place(loads, chain);
    loads[chain[most].server] -= shard.count;
    chain.erase(chain.begin() + static_cast<std::ptrdiff_t>(most));
  }
}

void append(const Shard& shard, NodeId server, std::uint64_t view, Chain& chain, Loads& loads) {
  chain.push_back({.server = server, .since = view, .synced = false});
  loads[server] += shard.count;
}

// As many parts together as fit.
void add_by_parts(const Shard& tensor, const std::vector<NormPart>& parts, std::int64_t most,
                  std::vector<Shard>& shards) {
  Shard shard = tensor;
  for (const NormPart& part : parts) {
    if (shard.count > 0 && shard.count + part.count > most) {
      shards.push_back(shard);
      shard = tensor;
      shard.first = part.first;
    }
    shard.parts.push_back({.first = shard.count, .count = part.count, .rank = part.rank});
    shard.count += part.count;
  }
  if (shard.count > 0) shards.push_back(shard);
}

}  // namespace

std::vector<Shard> shards_of(const ShardRequest& request) {
  std::vector<Shard> shards;
  const std::int64_t most = std::max<std::int64_t>(1, request.most);
  for (std::size_t tensor = 0; tensor < request.counts.size(); ++tensor) {
    const std::int64_t count = request.counts[tensor];
    const std::int64_t parts = (count + most - 1) / most;
    const bool decays = request.decays.empty() || request.decays[tensor];
    if (!request.parts.empty()) {
      add_by_parts({.tensor = static_cast<int>(tensor), .decays = decays}, request.parts[tensor], most, shards);
      continue;
    }
    for (std::int64_t part = 0; part < parts; ++part) {
      const std::int64_t first = count / parts * part + std::min(part, count % parts);
      const std::int64_t size = count / parts + (part < count % parts ? 1 : 0);
      shards.push_back({.tensor = static_cast<int>(tensor), .first = first, .count = size, .decays = decays});
    }
  }
  return shards;
}

std::int64_t all_bytes(std::span<const Shard> shards) {
  std::int64_t count = 0;
  for (const Shard& shard : shards) count += shard.count;
  return count * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t even_size(std::span<const std::int64_t> counts, int servers) {
  const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  // Shards of a quarter of a share: the fullest server has a quarter more than its share at most.
  return std::max<std::int64_t>(1, all / (4 * std::max(1, servers)));
}

std::vector<double> squares_of(const std::vector<NormPart>& parts, std::span<const float> gradient) {
  if (parts.empty())
    return {kernel::sum_of_squares<float>(static_cast<std::int64_t>(gradient.size()), gradient.data())};
  std::vector<double> squares;
  for (const NormPart& part : parts)
    squares.push_back(kernel::sum_of_squares<float>(part.count, gradient.data() + part.first));
  return squares;
}

double norm_of(std::span<const Shard> shards, std::span<const std::vector<double>> squares) {
  std::vector<double> sums(1);
  for (const Shard& shard : shards) {
    for (const NormPart& part : shard.parts)
      sums.resize(std::max(sums.size(), static_cast<std::size_t>(part.rank) + 1));
  }
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    const std::vector<NormPart>& parts = shards[shard].parts;
    for (std::size_t i = 0; i < squares[shard].size(); ++i)
      sums[parts.empty() ? 0 : static_cast<std::size_t>(parts[i].rank)] += squares[shard][i];
  }
  if (sums.size() == 1) return std::sqrt(sums.front());
  float all = 0;
  for (const double sum : sums) all += static_cast<float>(sum);
  return std::sqrt(static_cast<double>(all));
}

NodeId head_of(const View& view, ShardId shard) {
  if (shard < 0 || static_cast<std::size_t>(shard) >= view.chains.size()) return kNobody;
  const Chain& chain = view.chains[static_cast<std::size_t>(shard)];
  return chain.empty() ? kNobody : chain.front().server;
}

NodeId tail_of(const View& view, ShardId shard) {
  if (shard < 0 || static_cast<std::size_t>(shard) >= view.chains.size()) return kNobody;
  const Chain& chain = view.chains[static_cast<std::size_t>(shard)];
  return chain.empty() ? kNobody : chain.back().server;
}

int place_of(const View& view, ShardId shard, NodeId server) {
  if (shard < 0 || static_cast<std::size_t>(shard) >= view.chains.size()) return -1;
  const Chain& chain = view.chains[static_cast<std::size_t>(shard)];
  const auto found = std::find_if(chain.begin(), chain.end(), [&](const Member& m) { return m.server == server; });
  return found == chain.end() ? -1 : static_cast<int>(found - chain.begin());
}

Payload encode_view(const View& view) {
  ByteWriter writer;
  writer.put(view.number);
  for (const std::vector<NodeId>* nodes : {&view.servers, &view.workers}) {
    writer.put(static_cast<std::uint64_t>(nodes->size()));
    writer.put_all(std::span<const NodeId>(*nodes));
  }
  writer.put(static_cast<std::uint64_t>(view.chains.size()));
  for (const Chain& chain : view.chains) {
    writer.put(static_cast<std::uint64_t>(chain.size()));
    for (const Member& member : chain) {
      writer.put(member.server);
      writer.put(member.since);
      writer.put(static_cast<std::uint8_t>(member.synced ? 1 : 0));
    }
  }
  return payload_of(std::move(writer.bytes));
}

Result<View> decode_view(const Payload& payload) {
  constexpr std::size_t kMemberBytes = sizeof(NodeId) + sizeof(std::uint64_t) + 1;
  ByteReader reader{payload.bytes};
  View view;
  view.number = reader.take<std::uint64_t>();
  view.servers = reader.take_all<NodeId>(reader.take_count(sizeof(NodeId)));
  view.workers = reader.take_all<NodeId>(reader.take_count(sizeof(NodeId)));
  view.chains.resize(reader.take_count(sizeof(std::uint64_t)));
  for (Chain& chain : view.chains) {
    chain.resize(reader.take_count(kMemberBytes));
    for (Member& member : chain) {
      member.server = reader.take<NodeId>();
      member.since = reader.take<std::uint64_t>();
      member.synced = reader.take<std::uint8_t>() != 0;
    }
  }
  if (reader.failed || !reader.bytes.empty()) {
    return input_error(fmt::format("a view of {} bytes that does not end where it should", payload.bytes.size()));
  }
  if (!std::is_sorted(view.workers.begin(), view.workers.end())) {
    return input_error(fmt::format("view {} has its workers out of order", view.number));
  }
  return view;
}

void place(std::span<const Shard> shards, std::span<const NodeId> servers, int copies, std::uint64_t view,
           std::vector<Chain>& chains) {
  const std::size_t wanted = std::min(static_cast<std::size_t>(std::max(1, copies)), servers.size());
  Loads loads;
  for (const NodeId server : servers) loads[server] = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    for (const Member& member : chains[i]) loads[member.server] += shards[i].count;
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    trim(shards[i], wanted, chains[i], loads);
    while (chains[i].size() < wanted) append(shards[i], least_loaded(loads, chains[i]), view, chains[i], loads);
  }
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (chains[i].size() != wanted || !all_synced(chains[i])) continue;
    const NodeId least = least_loaded(loads, chains[i]);
    if (least == kNobody) continue;
    const std::size_t most = most_loaded_place(loads, chains[i]);
    const NodeId from = chains[i][most].server;
    if (loads[from] - loads[least] <= shards[i].count) continue;  // it would only change places
    append(shards[i], least, view, chains[i], loads);
    loads[from] -= shards[i].count;  // as it will be when the new one is synced, so that not all shards move
  }
}

}  // namespace twinpod::ps
