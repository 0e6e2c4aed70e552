// Writes a schedule as MSCCL's XML: for each rank a thread block for every peer that it sends to, one for every peer
// that it receives from, and one for what is local.
//
// MSCCL has no rounds. Steps of different thread blocks that touch the same chunk are put in the order of the schedule
// by waits; a step has room for one, so further ones stand on nop steps before it.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "collective/msccl.hpp"
#include "core/quote.hpp"

namespace twinpod::collective {
namespace {

constexpr int kMaxChannels = 32;  // of NCCL

struct Written {
  std::string_view type;
  Step step;
  int depid = -1;
  int deps = -1;
  bool has_dependent = false;
};

struct OpId {
  int block = 0;
  int step = 0;
};

struct WrittenBlock {
  int send = -1;
  int receive = -1;
  int channel = 0;
  std::vector<Written> ops = {};
  std::map<int, int> waited = {};  // the last step of each other block that this one has waited for
};

// Who last wrote a chunk, and who has read it since.
struct Touched {
  std::vector<OpId> writers = {};
  std::vector<OpId> readers = {};
};

struct Rank {
  std::vector<WrittenBlock> blocks = {};
  std::map<std::tuple<int, int, int>, int> block_of = {};  // by peers and channel
  std::map<std::pair<Buffer, int>, Touched> touched = {};
};

int block_for(Rank& rank, int send, int receive, int channel) {
  const auto [found, is_new] =
      rank.block_of.emplace(std::tuple(send, receive, channel), static_cast<int>(rank.blocks.size()));
  if (is_new) rank.blocks.push_back({.send = send, .receive = receive, .channel = channel});
  return found->second;
}

// The last step of each other block that must have run, without those that were waited for already.
std::map<int, int> waits_of(const WrittenBlock& block, int own, const std::vector<OpId>& earlier) {
  std::map<int, int> waits;
  for (const OpId& op : earlier) {
    if (op.block == own) continue;
    const auto waited = block.waited.find(op.block);
    if (waited != block.waited.end() && waited->second >= op.step) continue;
    int& last = waits.try_emplace(op.block, op.step).first->second;
    last = std::max(last, op.step);
  }
  return waits;
}

OpId add_op(Rank& rank, int b, std::string_view type, const Step& step, const std::vector<OpId>& earlier) {
  const std::map<int, int> waits = waits_of(rank.blocks[b], b, earlier);
  std::size_t left = waits.size();
  WrittenBlock& block = rank.blocks[b];
  for (const auto& [other, last] : waits) {
    rank.blocks[other].ops[last].has_dependent = true;
    block.waited[other] = last;
    --left;
    block.ops.push_back({left == 0 ? type : "nop", step, other, last});
  }
  if (waits.empty()) block.ops.push_back({type, step});
  return {b, static_cast<int>(block.ops.size()) - 1};
}

std::vector<Touched*> touched_by(const Schedule& schedule, Rank& rank, int number, Buffer buffer, int chunk,
                                 int count) {
  std::vector<Touched*> all;
  for (int i = 0; i < count; ++i) {
    const Place place = place_of(schedule, number, buffer, chunk + i);
    all.push_back(&rank.touched[{place.buffer, place.chunk}]);
  }
  return all;
}

void append(std::vector<OpId>& to, const std::vector<OpId>& more) { to.insert(to.end(), more.begin(), more.end()); }

// Reads come after the last write, writes after everything.
void add(const Schedule& schedule, std::vector<Rank>& ranks, const Step& step, int channel, bool reads, bool writes) {
  const int number = reads ? step.from : step.to;
  Rank& rank = ranks[number];
  const bool local = reads && writes;
  const int block = block_for(rank, reads && !local ? step.to : -1, writes && !local ? step.from : -1, channel);
  std::vector<Touched*> read;
  std::vector<Touched*> written;
  if (reads) read = touched_by(schedule, rank, number, step.source, step.source_chunk, step.count);
  if (writes) written = touched_by(schedule, rank, number, step.target, step.target_chunk, step.count);
  std::vector<OpId> earlier;
  for (const Touched* chunk : read) append(earlier, chunk->writers);
  for (const Touched* chunk : written) {
    append(earlier, chunk->writers);
    append(earlier, chunk->readers);
  }
  const std::string_view receives = step.reduce ? "rrc" : "r";
  const std::string_view type = local ? (step.reduce ? "re" : "cpy") : reads ? "s" : receives;
  Step said = step;
  if (!reads) {  // what is added to stands where the sender's chunk would
    said.source = step.target;
    said.source_chunk = step.target_chunk;
  }
  const OpId op = add_op(rank, block, type, said, earlier);
  for (Touched* chunk : read) chunk->readers.push_back(op);
  for (Touched* chunk : written) *chunk = {.writers = {op}};
}

// A pair that has several steps in a round uses as many channels, so that none waits for another. How many there are.
int add_rounds(const Schedule& schedule, std::vector<Rank>& ranks) {
  int channels = 1;
  for (const Round& round : schedule.rounds) {
    std::map<std::pair<int, int>, int> steps_of_pair;
    for (const Step& step : round.steps) {
      const bool local = step.from == step.to;
      const int channel = local ? 0 : steps_of_pair[{step.from, step.to}]++ % kMaxChannels;
      channels = std::max(channels, channel + 1);
      add(schedule, ranks, step, channel, true, local);
      if (!local) add(schedule, ranks, step, channel, false, true);
    }
  }
  return channels;
}

char letter(Buffer buffer) { return buffer == Buffer::input ? 'i' : buffer == Buffer::output ? 'o' : 's'; }

void write_op(std::string& xml, const Written& op, std::size_t number) {
  const Step& step = op.step;
  const bool nop = op.type == "nop";
  const auto out = std::back_inserter(xml);
  fmt::format_to(out, R"(      <step s="{}" type="{}" srcbuf="{}" srcoff="{}" dstbuf="{}" dstoff="{}")", number,
                 op.type, nop ? 'i' : letter(step.source), nop ? -1 : step.source_chunk,
                 nop ? 'o' : letter(step.target), nop ? -1 : step.target_chunk);
  fmt::format_to(out, R"( cnt="{}" depid="{}" deps="{}" hasdep="{}"/>)", nop ? 0 : step.count, op.depid, op.deps,
                 op.has_dependent ? 1 : 0);
  xml += '\n';
}

void write_rank(std::string& xml, const Schedule& schedule, const Rank& rank, int number) {
  const auto out = std::back_inserter(xml);
  fmt::format_to(out, "  <gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">\n", number,
                 num_chunks(schedule, number, Buffer::input), num_chunks(schedule, number, Buffer::output),
                 schedule.scratch_chunks);
  for (std::size_t b = 0; b < rank.blocks.size(); ++b) {
    const WrittenBlock& block = rank.blocks[b];
    fmt::format_to(out, "    <tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n", b, block.send, block.receive,
                   block.channel);
    for (std::size_t s = 0; s < block.ops.size(); ++s) write_op(xml, block.ops[s], s);
    xml += "    </tb>\n";
  }
  xml += "  </gpu>\n";
}

std::string_view name_in_msccl(Verb verb) {
  switch (verb) {
    case Verb::broadcast:
      return "broadcast";
    case Verb::reduce:
      return "reduce";
    case Verb::all_reduce:
      return "allreduce";
    case Verb::reduce_scatter:
      return "reducescatter";
    case Verb::all_gather:
      return "allgather";
    case Verb::scatter:
      return "scatter";
    case Verb::gather:
      return "gather";
    case Verb::all_to_all:
      return "alltoall";
    default:
      return "";
  }
}

}  // namespace

Result<std::string> to_msccl(const Schedule& schedule, std::string_view name) {
  const std::string_view coll = name_in_msccl(schedule.verb);
  if (coll.empty() || schedule.switches > 0 || !schedule.counts.empty()) {
    const std::string_view what = coll.empty()            ? name_of(schedule.verb)
                                  : schedule.switches > 0 ? "a switch that adds up"
                                                          : "an all-to-all of uneven parts";
    return infeasible(fmt::format("MSCCL's XML cannot say {}", what),
                      "another algorithm of all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, "
                      "scatter or gather");
  }
  std::vector<Rank> ranks(static_cast<std::size_t>(schedule.ranks));
  const int channels = add_rounds(schedule, ranks);
  std::string xml = fmt::format(
      "<algo name=\"{}\" proto=\"Simple\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" coll=\"{}\" "
      "inplace=\"{}\" "
      "outofplace=\"{}\" minBytes=\"0\" maxBytes=\"0\"{}>\n",
      xml_escaped(name), channels, schedule.chunks, schedule.ranks, coll, schedule.in_place ? 1 : 0,
      schedule.in_place ? 0 : 1, schedule.root == 0 ? "" : fmt::format(" root=\"{}\"", schedule.root));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    write_rank(xml, schedule, ranks[rank], static_cast<int>(rank));
  }
  return xml + "</algo>\n";
}

}  // namespace twinpod::collective
