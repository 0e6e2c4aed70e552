#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <pugixml.hpp>
#include <utility>

#include "collective/msccl_program.hpp"

namespace twinpod::collective::msccl {
namespace {

constexpr std::array<Type, 9> kTypes{{{"nop"},
                                      {.name = "s", .sends = true},
                                      {.name = "r", .receives = true, .keeps = true},
                                      {.name = "rcs", .receives = true, .sends = true, .keeps = true},
                                      {.name = "rrs", .receives = true, .sends = true, .reduces = true},
                                      {.name = "rrc", .receives = true, .reduces = true, .keeps = true},
                                      {"rrcs", true, true, true, true},
                                      {.name = "cpy", .local = true},
                                      {.name = "re", .reduces = true, .local = true}}};

// What MSCCL calls them; the tools and the executor do not agree on reduce_scatter.
constexpr std::array<std::pair<std::string_view, Verb>, 9> kCollectives{{{"allreduce", Verb::all_reduce},
                                                                         {"allgather", Verb::all_gather},
                                                                         {"reducescatter", Verb::reduce_scatter},
                                                                         {"reduce_scatter", Verb::reduce_scatter},
                                                                         {"alltoall", Verb::all_to_all},
                                                                         {"broadcast", Verb::broadcast},
                                                                         {"reduce", Verb::reduce},
                                                                         {"scatter", Verb::scatter},
                                                                         {"gather", Verb::gather}}};

struct Source {
  std::vector<std::ptrdiff_t> line_ends;
  int line_of(std::ptrdiff_t offset) const {
    return static_cast<int>(std::lower_bound(line_ends.begin(), line_ends.end(), offset) - line_ends.begin()) + 1;
  }
  int line_of(const pugi::xml_node& node) const { return line_of(node.offset_debug()); }
};

Source source_of(std::string_view xml) {
  Source source;
  for (std::size_t i = 0; i < xml.size(); ++i) {
    if (xml[i] == '\n') source.line_ends.push_back(static_cast<std::ptrdiff_t>(i));
  }
  return source;
}

// An attribute that must be a whole number between two others.
Result<int> number(const Source& source, const pugi::xml_node& node, const char* name, int least, int most) {
  const pugi::xml_attribute attribute = node.attribute(name);
  const std::string_view text = attribute.value();
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (attribute && error == std::errc() && end == text.data() + text.size() && value >= least && value <= most) {
    return value;
  }
  const std::string found = attribute ? fmt::format("is \"{}\"", text) : "is missing";
  return refuse_at(source.line_of(node), fmt::format("<{}>: attribute {} {}; expected a whole number from {} to {}",
                                                     node.name(), name, found, least, most));
}

// Reads one attribute after another and remembers the first error.
struct Fields {
  const Source& source;
  const pugi::xml_node& node;
  std::optional<Error> error = {};

  int read(const char* name, int least, int most) {
    if (error) return least;
    const Result<int> value = number(source, node, name, least, most);
    if (!value) error = value.error();
    return value.value_or(least);
  }
  Buffer read_buffer(const char* name) {
    const std::string_view text = node.attribute(name).value();
    if (text == "i") return Buffer::input;
    if (text == "o") return Buffer::output;
    if (text == "s") return Buffer::scratch;
    if (!error) {
      error = refuse_at(source.line_of(node),
                        fmt::format("<{}>: attribute {} is \"{}\"; expected i, o or s", node.name(), name, text))
                  .value();
    }
    return Buffer::input;
  }
};

Result<Op> parse_op(const Source& source, const pugi::xml_node& node, int place) {
  Op op{.line = source.line_of(node)};
  const std::string_view type = node.attribute("type").value();
  op.type = type_named(type);
  if (op.type == nullptr) {
    return refuse_at(op.line, fmt::format("<step>: type \"{}\" is not known", type),
                     "s, r, rcs, rrs, rrc, rrcs, cpy, re or nop");
  }
  Fields fields{source, node};
  if (const int s = fields.read("s", 0, kMaxChunks); !fields.error && s != place) {
    return refuse_at(op.line, fmt::format("<step>: s is {}, but this is step {} of its thread block", s, place));
  }
  op.waits_for_block = fields.read("depid", -1, kMaxChunks);
  op.waits_for_step = fields.read("deps", -1, kMaxChunks);
  if (type != "nop") {
    op.source = fields.read_buffer("srcbuf");
    op.source_chunk = fields.read("srcoff", -1, kMaxChunks);
    op.target = fields.read_buffer("dstbuf");
    op.target_chunk = fields.read("dstoff", -1, kMaxChunks);
    op.count = fields.read("cnt", 1, kMaxChunks);
  }
  if (fields.error) return tl::unexpected(*fields.error);
  return op;
}

Result<Block> parse_block(const Source& source, const pugi::xml_node& node, int rank, int ranks) {
  Fields fields{source, node};
  Block block{.id = fields.read("id", 0, kMaxChunks),
              .send = fields.read("send", -1, ranks - 1),
              .receive = fields.read("recv", -1, ranks - 1),
              .channel = fields.read("chan", 0, kMaxChunks),
              .line = source.line_of(node)};
  if (fields.error) return tl::unexpected(*fields.error);
  if (block.send == rank || block.receive == rank) {
    return refuse_at(block.line, fmt::format("rank {}, thread block {}: its peer is its own rank", rank, block.id));
  }
  for (const pugi::xml_node& child : node.children("step")) {
    Result<Op> op = parse_op(source, child, static_cast<int>(block.ops.size()));
    if (!op) return tl::unexpected(op.error());
    const bool no_peer = (op->type->sends && block.send < 0) || (op->type->receives && block.receive < 0);
    if (no_peer) {
      return refuse_at(op->line, fmt::format("{}: type {}, but the thread block has no {}",
                                             where(rank, block, static_cast<int>(block.ops.size())), op->type->name,
                                             op->type->sends && block.send < 0 ? "send" : "recv"));
    }
    block.ops.push_back(*op);
  }
  return block;
}

// Thread blocks by their place instead of their id, and every wait for a step that is there.
Result<void> link_waits(int rank, std::vector<Block>& blocks) {
  std::map<int, int> place_of_id;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (!place_of_id.emplace(blocks[i].id, static_cast<int>(i)).second) {
      return refuse_at(blocks[i].line, fmt::format("rank {}: thread block {} is there twice", rank, blocks[i].id));
    }
  }
  for (Block& block : blocks) {
    for (std::size_t s = 0; s < block.ops.size(); ++s) {
      Op& op = block.ops[s];
      if (op.waits_for_block < 0) continue;
      const auto found = place_of_id.find(op.waits_for_block);
      const bool there = found != place_of_id.end() && op.waits_for_step >= 0 &&
                         op.waits_for_step < static_cast<int>(blocks[found->second].ops.size());
      if (!there) {
        return refuse_at(op.line,
                         fmt::format("{} waits for step {} of thread block {}, which is not there",
                                     where(rank, block, static_cast<int>(s)), op.waits_for_step, op.waits_for_block));
      }
      op.waits_for_block = found->second;
    }
  }
  return {};
}

// Two thread blocks that send to one peer over one channel would mix their messages; the same for receives.
Result<void> check_channels(int rank, const std::vector<Block>& blocks) {
  for (const bool sends : {true, false}) {
    std::map<std::pair<int, int>, int> user;
    for (const Block& block : blocks) {
      const int peer = sends ? block.send : block.receive;
      const bool uses = std::any_of(block.ops.begin(), block.ops.end(),
                                    [&](const Op& op) { return sends ? op.type->sends : op.type->receives; });
      if (peer < 0 || !uses) continue;
      const auto [first, is_new] = user.emplace(std::pair(peer, block.channel), block.id);
      if (is_new) continue;
      return refuse_at(block.line,
                       fmt::format("rank {}: thread blocks {} and {} both {} rank {} over channel {}", rank,
                                   first->second, block.id, sends ? "send to" : "receive from", peer, block.channel));
    }
  }
  return {};
}

Result<void> parse_rank(const Source& source, const pugi::xml_node& node, Program& program) {
  Fields fields{source, node};
  const int ranks = program.schedule.ranks;
  const int rank = fields.read("id", 0, ranks - 1);
  const int scratch = fields.read("s_chunks", 0, kMaxChunks);
  if (fields.error) return tl::unexpected(*fields.error);
  program.schedule.scratch_chunks = std::max(program.schedule.scratch_chunks, scratch);
  if (program.schedule.lines[rank] != 0) {
    return refuse_at(source.line_of(node), fmt::format("rank {} is there twice", rank));
  }
  program.schedule.lines[rank] = source.line_of(node);
  std::vector<Block>& blocks = program.ranks[rank];
  for (const pugi::xml_node& child : node.children("tb")) {
    Result<Block> block = parse_block(source, child, rank, ranks);
    if (!block) return tl::unexpected(block.error());
    blocks.push_back(std::move(*block));
  }
  if (const Result<void> linked = link_waits(rank, blocks); !linked) return linked;
  return check_channels(rank, blocks);
}

Result<Program> parse_head(const Source& source, const pugi::xml_node& algo) {
  const int line = source.line_of(algo);
  const std::string_view coll = algo.attribute("coll").value();
  const auto known = std::find_if(kCollectives.begin(), kCollectives.end(), [&](auto& c) { return c.first == coll; });
  if (known == kCollectives.end()) {
    return refuse_at(line, fmt::format("<algo>: coll \"{}\" is not known", coll),
                     "allreduce, allgather, reducescatter, alltoall, broadcast, reduce, scatter or gather");
  }
  Fields fields{source, algo};
  Program program;
  Schedule& schedule = program.schedule;
  schedule.verb = known->second;
  schedule.ranks = fields.read("ngpus", 1, kMaxScheduleRanks);
  schedule.chunks = fields.read("nchunksperloop", 1, kMaxChunks);
  schedule.in_place = fields.read("inplace", 0, 1) == 1;
  if (algo.attribute("root")) schedule.root = fields.read("root", 0, schedule.ranks - 1);
  if (fields.error) return tl::unexpected(*fields.error);
  const std::int64_t cells = std::int64_t{schedule.ranks} * schedule.chunks;
  if (cells > kMaxCells) {
    return refuse_at(line, fmt::format("{} ranks with {} chunks: {} in all; at most {} can be proved", schedule.ranks,
                                       schedule.chunks, cells, kMaxCells));
  }
  const bool divided = part_chunks(schedule) != schedule.chunks;
  if (divided && schedule.chunks % schedule.ranks != 0) {
    return refuse_at(
        line, fmt::format("<algo>: nchunksperloop {} cannot be divided by {} ranks", schedule.chunks, schedule.ranks));
  }
  schedule.lines.resize(static_cast<std::size_t>(schedule.ranks));
  program.ranks.resize(static_cast<std::size_t>(schedule.ranks));
  return program;
}

}  // namespace

const Type* type_named(std::string_view name) {
  const auto* found = std::find_if(kTypes.begin(), kTypes.end(), [&](const Type& type) { return type.name == name; });
  return found == kTypes.end() ? nullptr : found;
}

std::string where(int rank, const Block& block, int step) {
  return fmt::format("rank {}, thread block {}, step {}", rank, block.id, step);
}

tl::unexpected<Error> refuse_at(int line, std::string message, std::string hint) {
  tl::unexpected<Error> error = input_error(std::move(message), std::move(hint));
  error.value().line = line;
  return error;
}

Result<Program> parse(std::string_view xml) {
  const Source source = source_of(xml);
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size());
  if (!parsed) {
    return refuse_at(source.line_of(parsed.offset), fmt::format("this is no XML: {}", parsed.description()));
  }
  const pugi::xml_node algo = document.child("algo");
  if (!algo) return refuse_at(1, "there is no <algo> in this file; expected MSCCL's XML");
  Result<Program> program = parse_head(source, algo);
  if (!program) return program;
  for (const pugi::xml_node& child : algo.children("gpu")) {
    if (const Result<void> rank = parse_rank(source, child, *program); !rank) return tl::unexpected(rank.error());
  }
  for (std::size_t rank = 0; rank < program->ranks.size(); ++rank) {
    if (program->schedule.lines[rank] == 0) {
      return refuse_at(source.line_of(algo),
                       fmt::format("there is no <gpu> for rank {} of {}", rank, program->ranks.size()));
    }
  }
  return program;
}

}  // namespace twinpod::collective::msccl
