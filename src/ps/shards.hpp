// Which part of the parameters is where.
//
// A shard is a range of one tensor. Large tensors are split, so that all servers have about the same to do. Each shard
// has a chain of servers that hold a copy: pushes go to its head, are passed on along the chain, and are acknowledged
// when the tail has them; the tail answers pulls. A view says who is there and what the chains are; views are numbered
// from 1 and made by the controller (controller.hpp) alone.
//
//     const std::vector<Shard> shards = shards_of({.counts = {1000, 30}, .most = 300});   // 250, 250, 250, 250, 30
//     std::vector<Chain> chains(shards.size());
//     place(shards, {1, 2, 3}, 2, 1, chains);                                             // two copies of each
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ps/message.hpp"

namespace twinpod::ps {

// A part of a shard whose squares are added up by themselves, as one rank of a data-parallel trainer adds them up: the
// norm of all gradients is made of the same sums, in the same order.
struct NormPart {
  std::int64_t first = 0;  // element of the shard; in a request, of the tensor
  std::int64_t count = 0;
  int rank = 0;
  bool operator==(const NormPart&) const = default;
};

struct Shard {
  int tensor = 0;
  std::int64_t first = 0;  // element of the tensor
  std::int64_t count = 0;
  bool decays = true;                // by the optimizer's weight decay
  std::vector<NormPart> parts = {};  // one after the other; none: all of it is one, rank 0's
  bool operator==(const Shard&) const = default;
};

struct ShardRequest {
  std::vector<std::int64_t> counts = {};  // elements of each tensor, in the order in which the forward pass needs them
  std::int64_t most = 1 << 20;            // elements of a shard
  std::vector<bool> decays = {};          // of each tensor; empty: all do
  std::vector<std::vector<NormPart>> parts = {};  // of each tensor, all of its elements; empty: none are told apart
};

// Shards of a tensor differ by one element at most. Empty tensors have none. With parts, each of them lies in one
// shard, also when it is larger than a shard should be.
std::vector<Shard> shards_of(const ShardRequest& request);

// Of the values of all of them.
std::int64_t all_bytes(std::span<const Shard> shards);

// The largest shard size with which each server gets its share, in elements: small tensors stay whole.
std::int64_t even_size(std::span<const std::int64_t> counts, int servers);

// The squares of each part of a shard are summed by a server; here all of them, of all shards, become the norm. The
// sums of ranks are added in fp32 if there are several, as the trainer's all-reduce adds them.
std::vector<double> squares_of(const std::vector<NormPart>& parts, std::span<const float> gradient);
double norm_of(std::span<const Shard> shards, std::span<const std::vector<double>> squares);  // empty: all are 0

struct Member {
  NodeId server = kNobody;
  std::uint64_t since = 0;  // the view in which it came into this chain: with it, its copy was still empty
  bool synced = false;      // whether the controller knows that it has a copy
  bool operator==(const Member&) const = default;
};
using Chain = std::vector<Member>;  // head first; those that came later are further back

struct View {
  std::uint64_t number = 0;
  std::vector<NodeId> servers = {};
  std::vector<NodeId> workers = {};  // in rising order, which is the order of sums
  std::vector<Chain> chains = {};    // of each shard
};

NodeId head_of(const View& view, ShardId shard);  // kNobody: no such shard, or nobody has it
NodeId tail_of(const View& view, ShardId shard);
// Its place in the chain; -1: not in it.
int place_of(const View& view, ShardId shard, NodeId server);

Payload encode_view(const View& view);
Result<View> decode_view(const Payload& payload);

// Makes the chains what they should be with these servers, step by step: called again when a new copy is synced.
//   1. Chains with fewer than `copies` get another server at their end, the one with the least.
//   2. Whole chains move from servers with much to servers with little: the new one first, the old one off when the new
//      one is synced.
// New members are marked with `view`. REQUIRES: all members of the chains are among the servers.
void place(std::span<const Shard> shards, std::span<const NodeId> servers, int copies, std::uint64_t view,
           std::vector<Chain>& chains);

}  // namespace twinpod::ps
