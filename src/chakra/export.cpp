#include "chakra/export.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "chakra/archive.hpp"
#include "chakra/attributes.hpp"
#include "chakra/messages.hpp"
#include "chakra/workload.hpp"
#include "core/files.hpp"

namespace twinpod::chakra {
namespace {

using program::Op;
using program::OpKind;
using program::PlacedOp;
using program::Program;

constexpr std::string_view kVersion = "0.0.4";
constexpr std::string_view kProgramName = "twinpod_program";
constexpr std::string_view kListName = "twinpod_list";
constexpr std::string_view kRankName = "twinpod_rank";
constexpr std::string_view kAlikeName = "twinpod_ranks_alike";
constexpr double kRingTag = 1e9;  // beyond those of stages

std::size_t at(int i) { return static_cast<std::size_t>(i); }

ChakraProtoMsg::NodeType type_of(OpKind kind) {
  switch (kind) {
    case OpKind::compute:
      return ChakraProtoMsg::COMP_NODE;
    case OpKind::collective:
      return ChakraProtoMsg::COMM_COLL_NODE;
    case OpKind::send:
      return ChakraProtoMsg::COMM_SEND_NODE;
    case OpKind::recv:
      return ChakraProtoMsg::COMM_RECV_NODE;
    case OpKind::pull:
    case OpKind::read:
      return ChakraProtoMsg::MEM_LOAD_NODE;
    default:
      return ChakraProtoMsg::MEM_STORE_NODE;
  }
}

ChakraProtoMsg::CollectiveCommType comm_type_of(collective::Verb verb) {
  switch (verb) {
    case collective::Verb::reduce:
      return ChakraProtoMsg::REDUCE;
    case collective::Verb::all_gather:
      return ChakraProtoMsg::ALL_GATHER;
    case collective::Verb::gather:
      return ChakraProtoMsg::GATHER;
    case collective::Verb::scatter:
      return ChakraProtoMsg::SCATTER;
    case collective::Verb::broadcast:
      return ChakraProtoMsg::BROADCAST;
    case collective::Verb::all_to_all:
      return ChakraProtoMsg::ALL_TO_ALL;
    case collective::Verb::reduce_scatter:
      return ChakraProtoMsg::REDUCE_SCATTER;
    case collective::Verb::barrier:
      return ChakraProtoMsg::BARRIER;
    default:
      return ChakraProtoMsg::ALL_REDUCE;
  }
}

// What one rank puts in, as Chakra counts it; a Program counts whole buffers, and of an all-to-all what goes to others.
double comm_size_of(const Op& op, double members) {
  if (op.kind != OpKind::collective || members <= 1) return op.bytes;
  if (op.verb == collective::Verb::all_gather) return op.bytes / members;
  if (op.verb == collective::Verb::all_to_all) return op.bytes * members / (members - 1);
  return op.bytes;
}

double moved_bytes(const program::Work& work) { return work.element_bytes + work.permute_bytes + work.table_bytes; }

bool runs_forward(const program::Block& block, int half) {
  return block.pair ? half == 0 : block.phase == program::Phase::forward;
}

// The same at both ends of a transfer, and no other has it: micro-batch, place of the receiver in the model, direction.
double tag_of(const Program& program, const PlacedOp& op) {
  const program::Peer peer = op.op->peer;
  if (peer == program::Peer::next_in_ring || peer == program::Peer::previous_in_ring) return kRingTag;
  const bool forward = runs_forward(*op.block, op.op->half);
  int position = op.chunk < 0 ? 0 : program.kinds[at(op.kind)].chunks[at(op.chunk)].position;
  if (op.op->kind == OpKind::send) position += forward ? 1 : -1;
  const double positions = double{1} * program.chunks * program.mesh.pp;
  return (op.micro_batch * positions + position) * 2 + (forward ? 0 : 1);
}

using Groups = std::map<std::string, std::vector<int>>;

// The nodes of one rank, in the order of its list. A node's id is its op's number in the list.
class NodeMaker {
 public:
  NodeMaker(const Program& program, int rank, Groups& groups) : program_(program), rank_(rank), groups_(groups) {
    last_on_lane_.fill(-1);
  }

  ChakraProtoMsg::Node make(const PlacedOp& op) {
    if (op.index == 0) begin_instance(op.instance);
    ChakraProtoMsg::Node node;
    node.set_id(static_cast<std::uint64_t>(number_));
    node.set_name(op_text(op));
    node.set_type(type_of(op.op->kind));
    add_waits(op, node);
    add_attributes(op, node);
    ++number_;
    return node;
  }

 private:
  void begin_instance(int instance) {
    first_.resize(at(instance) + 1, number_);
    lasts_.resize(at(instance) + 1);
  }

  void add_waits(const PlacedOp& at_op, ChakraProtoMsg::Node& node) {
    const Op& op = *at_op.op;
    for (int w = op.waits.first; w < op.waits.first + op.waits.count; ++w) {
      const int waited = first_[at(at_op.instance)] + at_op.block->waits[at(w)];
      node.add_data_deps(static_cast<std::uint64_t>(waited));
    }
    const program::Instance& instance = program_.kinds[at(at_op.kind)].instances[at(at_op.instance)];
    const program::Source& from = instance.from[op.half];
    if (op.entry && op.kind != OpKind::recv && from.kind >= 0 && from.instance < at_op.instance) {
      for (const int last : lasts_[at(from.instance)]) node.add_data_deps(static_cast<std::uint64_t>(last));
    }
    std::vector<int>& lasts = lasts_[at(at_op.instance)];
    if (op.kind != OpKind::recv) {
      int& last = last_on_lane_[static_cast<std::size_t>(op.lane)];
      if (last >= 0) node.add_ctrl_deps(static_cast<std::uint64_t>(last));
      std::erase(lasts, last);
      last = number_;
    }
    lasts.push_back(number_);  // the last of each lane, and all recvs
  }

  void add_attributes(const PlacedOp& at_op, ChakraProtoMsg::Node& node) {
    const Op& op = *at_op.op;
    if (op.kind == OpKind::compute) {
      const program::Work none;
      const program::Work& work = op.work < 0 ? none : program_.works[at(op.work)];
      add_flag(node, "is_cpu_op", work.on_host);
      add_number(node, "num_ops", op.share * work.flop());
      add_number(node, "tensor_size", op.share * moved_bytes(work));
      return;
    }
    if (op.kind == OpKind::collective) {
      const int members = layout::size(program_.mesh, op.group);
      add_flag(node, "is_cpu_op", false);
      add_number(node, "comm_type", comm_type_of(op.verb));
      add_number(node, "comm_size", comm_size_of(op, members));
      add_text(node, "pg_name", group_name(op.group));
      return;
    }
    if (op.kind == OpKind::send || op.kind == OpKind::recv) {
      const int peer = peer_rank(program_, at_op, rank_);
      add_flag(node, "is_cpu_op", false);
      add_number(node, "comm_size", op.bytes);
      add_number(node, "comm_src", op.kind == OpKind::send ? rank_ : peer);
      add_number(node, "comm_dst", op.kind == OpKind::send ? peer : rank_);
      add_number(node, "comm_tag", tag_of(program_, at_op));
      return;
    }
    add_number(node, "tensor_size", op.bytes);
  }

  // "tensor_8": by what it is for and by its first member.
  std::string group_name(layout::Group group) {
    std::string& name = names_[group];
    if (name.empty()) {
      std::vector<int> members = layout::members(program_.mesh, group, rank_);
      name = fmt::format("{}_{}", layout::name_of(group), *std::min_element(members.begin(), members.end()));
      groups_.emplace(name, std::move(members));
    }
    return name;
  }

  const Program& program_;
  int rank_ = 0;
  Groups& groups_;
  int number_ = 0;
  std::vector<int> first_;               // op of each instance
  std::vector<std::vector<int>> lasts_;  // of each instance: ops behind which it is over
  std::array<int, program::kNumLanes> last_on_lane_{};
  std::map<layout::Group, std::string> names_;
};

void add_bytes(ChakraProtoMsg::GlobalMetadata& metadata, std::string_view name, std::string value) {
  ChakraProtoMsg::AttributeProto& attribute = *metadata.add_attr();
  attribute.set_name(std::string(name));
  attribute.set_bytes_val(std::move(value));
}

void add_whole(ChakraProtoMsg::GlobalMetadata& metadata, std::string_view name, std::int64_t value) {
  ChakraProtoMsg::AttributeProto& attribute = *metadata.add_attr();
  attribute.set_name(std::string(name));
  attribute.set_int64_val(value);
}

std::uint64_t micros_of(const program::OpSpan& span) {
  const double micros = (span.end_s - span.start_s) * 1e6;
  return micros > 0 ? static_cast<std::uint64_t>(std::max(1LL, std::llround(micros))) : 0;
}

std::string file_of(const ExportInput& input, int rank, Groups& groups, std::size_t& nodes) {
  const Program& program = input.program;
  const int kind = kind_of_rank(program, rank);
  const program::RankTimeline& line = input.timeline.ranks[at(input.line_of_rank[at(rank)])];
  ChakraProtoMsg::GlobalMetadata metadata;
  metadata.set_version(std::string(kVersion));
  add_whole(metadata, kRankName, rank);
  add_whole(metadata, kAlikeName, program.ranks_of_kind());
  add_bytes(metadata, kProgramName, shared_bytes(program));
  add_bytes(metadata, kListName, kind_bytes(program.kinds[at(kind)]));
  std::string text;
  append_message(text, metadata.SerializeAsString());
  NodeMaker maker(program, rank, groups);
  std::size_t number = 0;
  program::for_each_op(program, kind, [&](const PlacedOp& op) {
    ChakraProtoMsg::Node node = maker.make(op);
    const bool moves = op.op->kind == OpKind::collective || op.op->kind == OpKind::send || op.op->kind == OpKind::recv;
    if (!moves) node.set_duration_micros(micros_of(line.ops[number]));
    append_message(text, node.SerializeAsString());
    ++number;
  });
  nodes += number;
  return text;
}

// Traces of another step among ours would be read as ranks of it.
Result<void> check_folder(const std::string& folder, const std::map<std::string, int>& files) {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".et") || files.contains(name)) continue;
    return file_error(folder, fmt::format("holds {}, which is not a file of this step", name),
                      "a folder that is empty or not there yet");
  }
  if (failed) return input_error(fmt::format("cannot read the folder {}", folder), failed.message());
  return {};
}

// What a file says about itself.
struct Header {
  std::string file;
  int rank = 0;
  std::string shared;
  std::string list;
  std::string text;
};

Result<Header> read_header(const std::string& file, int rank) {
  Result<std::string> text = read_file(file, kMostRecordBytes, "a Chakra trace");
  if (!text) return tl::unexpected(text.error());
  Header header{file, rank, {}, {}, std::move(*text)};
  const Result<std::vector<std::string_view>> messages = split_messages(header.text, file);
  if (!messages) return tl::unexpected(messages.error());
  ChakraProtoMsg::GlobalMetadata metadata;
  const bool good = !messages->empty() &&
                    metadata.ParseFromArray(messages->front().data(), static_cast<int>(messages->front().size()));
  const auto* shared = find_attribute(metadata.attr(), kProgramName);
  const auto* list = find_attribute(metadata.attr(), kListName);
  const auto* written = find_attribute(metadata.attr(), kRankName);
  if (!good || shared == nullptr || list == nullptr || written == nullptr) {
    return file_error(file, "holds no Program of twinpod", "twinpod simulate --workload runs traces of others");
  }
  if (number_of(*written) != rank) {
    return file_error(file, fmt::format("is of rank {}, but its name says {}", number_of(*written), rank));
  }
  header.shared = shared->bytes_val();
  header.list = list->bytes_val();
  return header;
}

// Nodes and attributes of a file say the same.
Result<void> check_nodes(const Program& program, const Header& header) {
  const std::vector<std::string_view> messages = split_messages(header.text, header.file).value();
  Groups groups;
  NodeMaker maker(program, header.rank, groups);
  std::size_t next = 1;
  Result<void> result;
  program::for_each_op(program, kind_of_rank(program, header.rank), [&](const PlacedOp& op) {
    if (!result) return;
    const ChakraProtoMsg::Node expected = maker.make(op);
    ChakraProtoMsg::Node found;
    const bool parsed =
        next < messages.size() && found.ParseFromArray(messages[next].data(), static_cast<int>(messages[next].size()));
    ++next;
    found.clear_duration_micros();
    if (parsed && found.SerializeAsString() == expected.SerializeAsString()) return;
    result = file_error(header.file, fmt::format("node {}: {}, but the file's Program has: {}", expected.id(),
                                                 parsed ? "it is another" : "it is missing", expected.name()));
  });
  if (result && next != messages.size()) {
    result = file_error(header.file, fmt::format("it has {} nodes, but its Program {}", messages.size() - 1, next - 1));
  }
  return result;
}

}  // namespace

std::string chakra_file(const ExportInput& input, int rank) {
  Groups groups;
  std::size_t nodes = 0;
  return file_of(input, rank, groups, nodes);
}

Result<Written> write_chakra(const ExportInput& input, const std::string& folder, bool all_ranks) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) return input_error(fmt::format("cannot make the folder {}", folder), failed.message());
  std::map<std::string, int> files;
  for (int rank = 0; rank < input.program.mesh.ranks(); ++rank) {
    const int first = layout::rank_on_stage(input.program.mesh, 0, kind_of_rank(input.program, rank));
    if (all_ranks || rank == first) files.emplace(fmt::format("step.{}.et", rank), rank);
  }
  if (const Result<void> clean = check_folder(folder, files); !clean) return tl::unexpected(clean.error());
  Groups groups;
  Written written;
  for (const auto& [name, rank] : files) {
    const std::string file = (std::filesystem::path(folder) / name).string();
    const Result<void> wrote = write_file(file, file_of(input, rank, groups, written.nodes));
    if (!wrote) return tl::unexpected(wrote.error());
    ++written.files;
  }
  const std::string file = (std::filesystem::path(folder) / "comm_group.json").string();
  const Result<void> wrote =
      write_file(file, nlohmann::json(groups).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  if (!wrote) return tl::unexpected(wrote.error());
  return written;
}

Result<Program> read_chakra(const std::string& folder) {
  const Result<std::map<int, std::string>> files = rank_files(folder, false);
  if (!files) return tl::unexpected(files.error());
  std::vector<Header> headers;
  std::vector<std::string> lists;
  for (const auto& [rank, file] : *files) {
    Result<Header> header = read_header(file, rank);
    if (!header) return tl::unexpected(header.error());
    if (!headers.empty() && header->shared != headers.front().shared) {
      return file_error(file, fmt::format("is of another Program than {}", headers.front().file));
    }
    // Ranks of a stage have the same list.
    if (std::find(lists.begin(), lists.end(), header->list) == lists.end()) lists.push_back(header->list);
    headers.push_back(std::move(*header));
  }
  Result<Program> program = program_of(headers.front().shared, lists, headers.front().file);
  if (!program) return program;
  for (const Header& header : headers) {
    if (header.rank >= program->mesh.ranks()) return file_error(header.file, "its Program has no such rank");
    if (kind_bytes(program->kinds[at(kind_of_rank(*program, header.rank))]) != header.list) {
      return file_error(header.file, "its list is that of another stage");
    }
    const Result<void> same = check_nodes(*program, header);
    if (!same) return tl::unexpected(same.error());
  }
  return program;
}

}  // namespace twinpod::chakra
