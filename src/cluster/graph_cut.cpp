#include "cluster/graph_cut.hpp"

#include <algorithm>
#include <limits>

namespace twinpod::cluster {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

// Arcs 2i and 2i + 1 are each other's way back; the two extra vertices are source and sink.
struct Network {
  std::vector<std::vector<int>> out;
  std::vector<int> to;
  std::vector<double> left;
  std::vector<int> level;
  std::vector<std::size_t> next;

  void add(int a, int b, double capacity) {
    out[a].push_back(static_cast<int>(to.size()));
    to.push_back(b);
    left.push_back(capacity);
    out[b].push_back(static_cast<int>(to.size()));
    to.push_back(a);
    left.push_back(0);
  }
};

bool find_levels(Network& net, int source, int sink) {
  net.level.assign(net.out.size(), -1);
  net.level[source] = 0;
  std::vector<int> queue = {source};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const int arc : net.out[queue[i]]) {
      if (net.left[arc] <= 0 || net.level[net.to[arc]] >= 0) continue;
      net.level[net.to[arc]] = net.level[queue[i]] + 1;
      queue.push_back(net.to[arc]);
    }
  }
  return net.level[sink] >= 0;
}

double push(Network& net, int at, int sink, double most) {
  if (at == sink) return most;
  for (std::size_t& i = net.next[at]; i < net.out[at].size(); ++i) {
    const int arc = net.out[at][i];
    if (net.left[arc] <= 0 || net.level[net.to[arc]] != net.level[at] + 1) continue;
    const double pushed = push(net, net.to[arc], sink, std::min(most, net.left[arc]));
    if (pushed <= 0) continue;
    net.left[arc] -= pushed;
    net.left[arc ^ 1] += pushed;
    return pushed;
  }
  return 0;
}

}  // namespace

double max_flow_bytes_per_s(const Graph& graph, const std::vector<int>& from, const std::vector<int>& to) {
  Network net;
  const int source = static_cast<int>(graph.vertices.size());
  const int sink = source + 1;
  net.out.resize(graph.vertices.size() + 2);
  for (const GraphLink& link : graph.links) {
    if (link.bytes_per_s > 0) net.add(link.from, link.to, link.bytes_per_s);
  }
  for (const int device : from) net.add(source, graph.devices[device], kUnlimited);
  for (const int device : to) net.add(graph.devices[device], sink, kUnlimited);
  double flow = 0;
  while (find_levels(net, source, sink)) {
    net.next.assign(net.out.size(), 0);
    while (true) {
      const double pushed = push(net, source, sink, kUnlimited);
      if (pushed == kUnlimited) return pushed;  // one device on both sides: no link is between them
      if (pushed <= 0) break;
      flow += pushed;
    }
  }
  return flow;
}

}  // namespace twinpod::cluster
