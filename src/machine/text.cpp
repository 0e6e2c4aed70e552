// A Machine on its way from one process to another.
#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

#include "machine/machine.hpp"

namespace twinpod::machine {

using Json = nlohmann::json;

std::string to_text(const Machine& machine) {
  Json json = {{"ranks", machine.ranks},
               {"hosts", machine.hosts},
               {"kernel", machine.kernel_overhead_s},
               {"product", machine.product_overhead_s},
               {"products", Json::array()},
               {"memory", Json::array()},
               {"kernels", Json::array()},
               {"links", Json::array()}};
  for (const ProductTime& p : machine.products) {
    json["products"].push_back({static_cast<int>(p.precision), p.m, p.n, p.k, p.ranks, p.threads, p.seconds});
  }
  for (const MemoryRate& m : machine.memory) json["memory"].push_back({m.kernel, m.ranks, m.threads, m.bytes_per_s});
  for (const KernelTime& k : machine.kernels) {
    json["kernels"].push_back({k.kernel, k.ranks, k.threads, k.work, k.seconds});
  }
  for (const LinkTime& l : machine.links) {
    json["links"].push_back({l.transport, l.verb, l.ranks, l.between_hosts, l.bytes, l.seconds});
  }
  return json.dump();
}

Result<Machine> from_text(const std::string& text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("links")) return infeasible("a rank sent no measurements");
  Machine machine;
  machine.ranks = json["ranks"];
  machine.hosts = json["hosts"];
  machine.kernel_overhead_s = json["kernel"];
  machine.product_overhead_s = json["product"];
  for (const Json& p : json["products"]) {
    machine.products.push_back({static_cast<spec::Precision>(p[0].get<int>()), p[1], p[2], p[3], p[4], p[5], p[6]});
  }
  for (const Json& m : json["memory"]) machine.memory.push_back({m[0], m[1], m[2], m[3]});
  for (const Json& k : json["kernels"]) machine.kernels.push_back({k[0], k[1], k[2], k[3], k[4]});
  for (const Json& l : json["links"]) machine.links.push_back({l[0], l[1], l[2], l[3], l[4], l[5]});
  return machine;
}

void append(Machine& machine, Machine&& more) {
  const auto move_all = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  move_all(machine.products, more.products);
  move_all(machine.memory, more.memory);
  move_all(machine.kernels, more.kernels);
  move_all(machine.links, more.links);
  if (more.kernel_overhead_s > 0) machine.kernel_overhead_s = more.kernel_overhead_s;
  if (more.product_overhead_s > 0) machine.product_overhead_s = more.product_overhead_s;
}

}  // namespace twinpod::machine
