#include "chakra/workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "chakra/attributes.hpp"
#include "chakra/messages.hpp"
#include "core/files.hpp"
#include "core/quote.hpp"

namespace twinpod::chakra {
namespace {

constexpr std::size_t kMaxName = 80;
constexpr double kMaxNumber = 1e18;  // bytes or operations of one node

NodeKind kind_of(ChakraProtoMsg::NodeType type) {
  switch (type) {
    case ChakraProtoMsg::METADATA_NODE:
      return NodeKind::metadata;
    case ChakraProtoMsg::MEM_LOAD_NODE:
      return NodeKind::load;
    case ChakraProtoMsg::MEM_STORE_NODE:
      return NodeKind::store;
    case ChakraProtoMsg::COMP_NODE:
      return NodeKind::compute;
    case ChakraProtoMsg::COMM_SEND_NODE:
      return NodeKind::send;
    case ChakraProtoMsg::COMM_RECV_NODE:
      return NodeKind::recv;
    case ChakraProtoMsg::COMM_COLL_NODE:
      return NodeKind::collective;
    default:
      return NodeKind::other;
  }
}

constexpr collective::Verb kVerbs[] = {collective::Verb::all_reduce,     collective::Verb::reduce,
                                       collective::Verb::all_gather,     collective::Verb::gather,
                                       collective::Verb::scatter,        collective::Verb::broadcast,
                                       collective::Verb::all_to_all,     collective::Verb::reduce_scatter,
                                       collective::Verb::reduce_scatter, collective::Verb::barrier};

// Reads one message into a node; errors name the file and the node's id.
class NodeReader {
 public:
  NodeReader(const ChakraProtoMsg::Node& message, const std::string& file) : message_(message), file_(file) {}

  Result<WorkNode> read(std::vector<std::string>& groups) {
    node_.id = message_.id();
    node_.name = shortened(message_.name(), kMaxName);
    if (!ChakraProtoMsg::NodeType_IsValid(message_.type()) || message_.type() == ChakraProtoMsg::INVALID_NODE) {
      return error(fmt::format("type {} is none of the schema", static_cast<int>(message_.type())),
                   "types are 1 to 10");
    }
    node_.kind = kind_of(message_.type());
    node_.duration_s = static_cast<double>(message_.duration_micros()) * 1e-6;
    if (const auto* flag = find_attribute(message_.attr(), "is_cpu_op")) {
      node_.on_host = flag->bool_val() || number_of(*flag) == 1;
    }
    const bool moves =
        node_.kind == NodeKind::send || node_.kind == NodeKind::recv || node_.kind == NodeKind::collective;
    double verb = 0;
    double peer = -1;
    double tag = 0;
    bool good = number("num_ops", 0, kMaxNumber, node_.flop) &&
                number(moves ? "comm_size" : "tensor_size", 0, kMaxNumber, node_.bytes) &&
                number("comm_type", 0, 9, verb) && number("comm_tag", -kMaxNumber, kMaxNumber, tag);
    if (node_.kind == NodeKind::send) good = good && needed("comm_dst", peer);
    if (node_.kind == NodeKind::recv) good = good && needed("comm_src", peer);
    if (good && node_.kind == NodeKind::collective) good = needed("comm_type", verb) && read_group(groups);
    if (!good) return tl::unexpected(*error_);
    node_.verb = kVerbs[static_cast<std::size_t>(verb)];
    node_.peer = static_cast<int>(peer);
    node_.tag = static_cast<std::int64_t>(tag);
    return std::move(node_);
  }

 private:
  tl::unexpected<Error> error(const std::string& what, std::string hint = "") {
    return file_error(file_, fmt::format("node {} `{}`: {}", message_.id(), node_.name, what), std::move(hint));
  }
  bool fail(const std::string& what, std::string hint = "") {
    error_ = error(what, std::move(hint)).value();
    return false;
  }
  // Leaves the value as it is when there is none.
  bool number(std::string_view name, double low, double high, double& value) {
    const auto* attribute = find_attribute(message_.attr(), name);
    if (attribute == nullptr) return true;
    const double found = number_of(*attribute);
    if (found >= low && found <= high) {
      value = std::trunc(found);
      return true;
    }
    return fail(fmt::format("{} is {}, but expected is a number from {} to {}", name, found, low, high));
  }
  bool needed(std::string_view name, double& value) {
    if (find_attribute(message_.attr(), name) == nullptr) return fail(fmt::format("has no attribute {}", name));
    return number(name, 0, name == "comm_type" ? 9 : 1e8, value);
  }
  bool read_group(std::vector<std::string>& groups) {
    std::string name;
    if (const auto* attribute = find_attribute(message_.attr(), "pg_name")) {
      name = attribute->string_val();
      if (name.empty() && number_of(*attribute) >= 0) name = fmt::format("{:.0f}", number_of(*attribute));
    }
    const auto found = std::find(groups.begin(), groups.end(), name);
    node_.group = static_cast<int>(found - groups.begin());
    if (found == groups.end()) groups.push_back(name);
    return true;
  }

  const ChakraProtoMsg::Node& message_;
  const std::string& file_;
  WorkNode node_;
  std::optional<Error> error_;
};

using Indices = std::unordered_map<std::uint64_t, std::uint32_t>;

Result<void> add_waits(const google::protobuf::RepeatedField<std::uint64_t>& ids, const Indices& indices,
                       const std::string& file, WorkNode& node) {
  for (const std::uint64_t id : ids) {
    const auto found = indices.find(id);
    if (found == indices.end()) {
      return file_error(
          file, fmt::format("node {} `{}`: waits for node {}, which is not in the file", node.id, node.name, id));
    }
    node.waits.push_back(found->second);
  }
  return {};
}

Result<GroupMembers> read_groups(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return GroupMembers{};
  const Result<std::string> text = read_file(file);
  if (!text) return tl::unexpected(text.error());
  const nlohmann::json json = nlohmann::json::parse(*text, nullptr, false);
  if (!json.is_object()) return file_error(file, "expected is an object of lists of ranks", R"({"0": [0, 1, 2, 3]})");
  GroupMembers groups;
  for (const auto& [name, ranks] : json.items()) {
    bool good = ranks.is_array();
    for (std::size_t i = 0; good && i < ranks.size(); ++i) {
      good = ranks[i].is_number_unsigned() && ranks[i].get<std::uint64_t>() < 100'000'000;
    }
    if (!good) return file_error(file, fmt::format("group `{}`: expected is a list of ranks", name));
    groups[name] = ranks.get<std::vector<int>>();
  }
  return groups;
}

// Each rank's group numbers become those of the workload.
void join_groups(Workload& workload, const GroupMembers& known) {
  std::map<std::string, int> index;
  for (std::size_t rank = 0; rank < workload.ranks.size(); ++rank) {
    std::vector<int> joined;
    for (const std::string& name : workload.ranks[rank].groups) {
      const auto [found, is_new] = index.try_emplace(name, static_cast<int>(workload.groups.size()));
      if (is_new) workload.groups.push_back({name, {}});
      joined.push_back(found->second);
      const bool inferred = !name.empty() && !known.contains(name) && !workload.alike;
      if (inferred) workload.groups[static_cast<std::size_t>(found->second)].members.push_back(static_cast<int>(rank));
    }
    for (WorkNode& node : workload.ranks[rank].nodes) {
      if (node.kind == NodeKind::collective) node.group = joined[static_cast<std::size_t>(node.group)];
    }
  }
  for (WorkGroup& group : workload.groups) {
    if (const auto found = known.find(group.name); found != known.end()) group.members = found->second;
  }
}

Result<void> check_members(const Workload& workload) {
  if (workload.alike) return {};
  const int ranks = static_cast<int>(workload.ranks.size());
  for (const RankWork& rank : workload.ranks) {
    for (const WorkNode& node : rank.nodes) {
      const bool sends = node.kind == NodeKind::send || node.kind == NodeKind::recv;
      if (sends && node.peer >= ranks) {
        return file_error(rank.file, fmt::format("node {} `{}`: there is no file of rank {}, its peer", node.id,
                                                 node.name, node.peer));
      }
      if (node.kind != NodeKind::collective) continue;
      for (const int member : workload.groups[static_cast<std::size_t>(node.group)].members) {
        if (member < ranks) continue;
        return file_error(rank.file, fmt::format("node {} `{}`: there is no file of rank {}, a member of its group",
                                                 node.id, node.name, member));
      }
    }
  }
  return {};
}

}  // namespace

Result<RankWork> parse_rank(std::string_view text, const std::string& file) {
  const Result<std::vector<std::string_view>> messages = split_messages(text, file);
  if (!messages) return tl::unexpected(messages.error());
  ChakraProtoMsg::GlobalMetadata metadata;
  if (messages->empty() ||
      !metadata.ParseFromArray(messages->front().data(), static_cast<int>(messages->front().size()))) {
    return file_error(file, "does not begin with Chakra's GlobalMetadata",
                      "twinpod simulate --chakra writes such files");
  }
  RankWork rank{file, {}, {}};
  Indices indices;
  ChakraProtoMsg::Node message;
  for (std::size_t i = 1; i < messages->size(); ++i) {
    if (!message.ParseFromArray((*messages)[i].data(), static_cast<int>((*messages)[i].size()))) {
      return file_error(file, fmt::format("message {} is no Node of Chakra's schema", i));
    }
    Result<WorkNode> node = NodeReader(message, file).read(rank.groups);
    if (!node) return tl::unexpected(node.error());
    if (!indices.emplace(node->id, static_cast<std::uint32_t>(rank.nodes.size())).second) {
      return file_error(file, fmt::format("node {} `{}`: its id is there twice", node->id, node->name));
    }
    rank.nodes.push_back(std::move(*node));
  }
  // A node may wait for one that comes after it in the file.
  for (std::size_t i = 1; i < messages->size(); ++i) {
    message.ParseFromArray((*messages)[i].data(), static_cast<int>((*messages)[i].size()));
    for (const auto* ids : {&message.ctrl_deps(), &message.data_deps()}) {
      const Result<void> added = add_waits(*ids, indices, file, rank.nodes[i - 1]);
      if (!added) return tl::unexpected(added.error());
    }
  }
  return rank;
}

Result<Workload> join_ranks(std::vector<RankWork> ranks, const GroupMembers& groups) {
  Workload workload{false, std::move(ranks), {}};
  join_groups(workload, groups);
  const Result<void> checked = check_members(workload);
  if (!checked) return tl::unexpected(checked.error());
  return workload;
}

int rank_of_file(const std::string& path) {
  const std::string stem = std::filesystem::path(path).stem().string();  // NAME.3
  const std::string digits = stem.substr(stem.rfind('.') + 1);           // all of it when there is no dot
  int rank = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  return error == std::errc{} && end == digits.data() + digits.size() ? rank : -1;
}

Result<std::map<int, std::string>> rank_files(const std::string& folder, bool complete) {
  std::map<int, std::string> files;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    const std::string path = entry.path().string();
    if (!path.ends_with(".et")) continue;
    const int rank = rank_of_file(path);
    if (rank < 0) return file_error(path, "expected is a name with the rank in it: NAME.0.et, NAME.1.et, ...");
    if (!files.emplace(rank, path).second) {
      return file_error(path, fmt::format("rank {} has another file: {}", rank, files[rank]));
    }
  }
  if (failed) return input_error(fmt::format("cannot read {}", folder));
  if (files.empty()) return file_error(folder, "holds no .et files", "NAME.0.et, NAME.1.et, ...");
  const int last = files.rbegin()->first;
  for (int rank = 0; complete && rank <= last; ++rank) {
    if (files.contains(rank)) continue;
    return file_error(folder, fmt::format("there is no file of rank {}, but one of rank {}", rank, last),
                      "twinpod simulate --chakra FOLDER --all-ranks writes the files of all ranks");
  }
  return files;
}

Result<Workload> read_workload(const std::string& path) {
  const bool is_folder = std::filesystem::is_directory(path);
  Result<std::map<int, std::string>> files = std::map<int, std::string>{{0, path}};
  if (is_folder) files = rank_files(path, true);
  if (!files) return tl::unexpected(files.error());
  std::vector<RankWork> ranks;
  for (const auto& [number, file] : *files) {
    const Result<std::string> text = read_file(file, kMostRecordBytes, "a Chakra trace");
    if (!text) return tl::unexpected(text.error());
    Result<RankWork> rank = parse_rank(*text, file);
    if (!rank) return tl::unexpected(rank.error());
    ranks.push_back(std::move(*rank));
  }
  if (is_folder) {
    const Result<GroupMembers> groups = read_groups((std::filesystem::path(path) / "comm_group.json").string());
    if (!groups) return tl::unexpected(groups.error());
    return join_ranks(std::move(ranks), *groups);
  }
  Workload workload{true, std::move(ranks), {}};
  join_groups(workload, {});
  return workload;
}

}  // namespace twinpod::chakra
