// A Recording as JSON and back.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "comm/recording.hpp"
#include "core/files.hpp"

namespace twinpod::comm {
namespace {

using Json = nlohmann::ordered_json;

constexpr spec::NameTable<RankStatus, 5> kStatusNames{{{"running", RankStatus::running},
                                                       {"finished", RankStatus::finished},
                                                       {"failed", RankStatus::failed},
                                                       {"died", RankStatus::died},
                                                       {"stopped", RankStatus::stopped}}};

template <typename E, std::size_t N>
E named(const spec::NameTable<E, N>& table, const Json& json) {
  const auto text = json.get<std::string>();
  for (const auto& [name, value] : table) {
    if (name == text) return value;
  }
  throw Json::other_error::create(501, fmt::format("unknown name `{}`", text), &json);
}

Json operation_json(const Operation& operation) {
  return {{"group", operation.group},       {"sequence", operation.sequence},  {"verb", name_of(operation.verb)},
          {"receives", operation.receives}, {"type", name_of(operation.type)}, {"op", name_of(operation.op)},
          {"root", operation.root},         {"peer", operation.peer},          {"tag", operation.tag},
          {"bytes", operation.bytes},       {"start_ns", operation.start_ns},  {"end_ns", operation.end_ns}};
}

Operation operation_of(const Json& json) {
  Operation operation;
  operation.group = json.at("group").get<std::uint32_t>();
  operation.sequence = json.at("sequence").get<std::uint32_t>();
  operation.verb = named(collective::kVerbNames, json.at("verb"));
  operation.receives = json.at("receives").get<bool>();
  operation.type = named(kElementTypeNames, json.at("type"));
  operation.op = named(kReduceOpNames, json.at("op"));
  operation.root = json.at("root").get<int>();
  operation.peer = json.at("peer").get<int>();
  operation.tag = json.at("tag").get<int>();
  operation.bytes = json.at("bytes").get<std::uint64_t>();
  operation.start_ns = json.at("start_ns").get<std::int64_t>();
  operation.end_ns = json.at("end_ns").get<std::int64_t>();
  return operation;
}

Recording recording_of(const Json& json) {
  Recording recording;
  recording.timeout_s = json.at("timeout_s").get<double>();
  recording.now_ns = json.at("now_ns").get<std::int64_t>();
  for (const Json& group : json.at("groups")) {
    recording.groups.push_back({group.at("id").get<std::uint32_t>(), group.at("members").get<std::vector<int>>()});
  }
  for (const Json& rank : json.at("ranks")) {
    RankRecord record{.rank = rank.at("rank").get<int>(), .status = named(kStatusNames, rank.at("status"))};
    record.signal = rank.at("signal").get<int>();
    record.exit_status = rank.at("exit_status").get<int>();
    record.error = rank.at("error").get<std::string>();
    record.num_operations = rank.at("num_operations").get<std::uint64_t>();
    for (const Json& operation : rank.at("operations")) record.operations.push_back(operation_of(operation));
    recording.ranks.push_back(std::move(record));
  }
  return recording;
}

}  // namespace

std::string recording_json(const Recording& recording) {
  Json groups = Json::array();
  for (const GroupRecord& group : recording.groups) groups.push_back({{"id", group.id}, {"members", group.members}});
  Json ranks = Json::array();
  for (const RankRecord& record : recording.ranks) {
    Json operations = Json::array();
    for (const Operation& operation : record.operations) operations.push_back(operation_json(operation));
    ranks.push_back({{"rank", record.rank},
                     {"status", spec::name_in(kStatusNames, record.status)},
                     {"signal", record.signal},
                     {"exit_status", record.exit_status},
                     {"error", record.error},
                     {"num_operations", record.num_operations},
                     {"operations", operations}});
  }
  const Diagnosis diagnosis = diagnose(recording);
  const Json json = {{"diagnosis", diagnosis.message},
                     {"culprit", diagnosis.culprit},
                     {"timeout_s", recording.timeout_s},
                     {"now_ns", recording.now_ns},
                     {"groups", groups},
                     {"ranks", ranks}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Recording> parse_recording(const std::string& text, const std::string& file) {
  try {
    return recording_of(Json::parse(text));
  } catch (const Json::exception&) {
    Error error = input_error("this is no recording of a failed run, or not all of it",
                              "a run that fails writes one and names it")
                      .value();
    error.file = file;
    return tl::unexpected(error);
  }
}

Result<Recording> read_recording(const std::string& path) {
  const Result<std::string> text = read_file(path, kMostTextBytes, "a recording that a failed run wrote");
  if (!text) return tl::unexpected(text.error());
  return parse_recording(*text, path);
}

}  // namespace twinpod::comm
