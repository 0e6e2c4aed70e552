#include "validate/training_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/files.hpp"

namespace twinpod::validate {
namespace {

constexpr double kMib = 1024.0 * 1024.0;
constexpr double kGib = 1024.0 * kMib;
constexpr double kWarmUpShare = 0.2;
constexpr double kMaxNumber = 1e18;  // beyond it nothing is a time, a rate or a memory

// A key of a JSON line, or a text before a number in other lines.
struct Key {
  std::string_view name;
  double unit;  // of the number, in seconds or bytes
};

constexpr std::array kTimeKeys = {Key{"step_time_s", 1}, Key{"iteration_time_s", 1},
                                  Key{"elapsed_time_per_iteration_ms", 1e-3}, Key{"time_ms", 1e-3}};
constexpr std::array kMemoryKeys = {Key{"memory_bytes", 1}, Key{"memory_gb", 1e9}, Key{"max_memory_gib", kGib}};
constexpr std::array kMegatronTimes = {Key{"elapsed time per iteration (ms):", 1e-3},
                                       Key{"elapsed time per iteration (s):", 1}};
constexpr std::array<std::string_view, 2> kStepKeys = {"step", "iteration"};
constexpr std::string_view kTokensKey = "tokens_per_s";
constexpr std::string_view kMegatronMemory = "memory (MB)";

struct Line {
  std::string_view text;  // without colours
  int number = 0;
  bool is_cut_off = false;  // the last one, without a line break: the run was still writing it
};

class Parser {
 public:
  explicit Parser(const std::string& file) { log_.file = file; }

  void take(const Line& line) {
    line_ = line;
    if (is_json()) return take_json();
    if (take_megatron_step() || take_megatron_memory()) return;
    take_torchtitan();
  }

  bool failed() const { return error_.has_value(); }
  Result<TrainingLog> result();

 private:
  bool is_json() const;
  void take_json();
  bool take_megatron_step();
  bool take_megatron_memory();
  void take_torchtitan();

  void refuse(std::string_view at, const std::string& what, std::string_view found, std::string_view expected);
  double number(std::string_view token, std::string_view what, std::string_view expected);
  double json_number(const nlohmann::json& object, std::string_view key, std::string_view expected);
  std::int64_t json_count(const nlohmann::json& object, std::string_view key);
  void read_json_memory(const nlohmann::json& object, LoggedMemory& memory);
  void add_memory(const LoggedMemory& memory);

  Line line_;
  TrainingLog log_;
  std::optional<Error> error_;
};

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// What stands behind a marker: up to a space, a bar, or the bracket of the next rank's report, which two ranks that
// write at a time put on the same line.
std::string_view token_behind(std::string_view text, std::string_view marker, std::size_t from = 0) {
  const std::size_t found = text.find(marker, from);
  if (found == std::string_view::npos) return {};
  std::string_view rest = text.substr(found + marker.size());
  while (!rest.empty() && is_space(rest.front())) rest.remove_prefix(1);
  return rest.substr(0, std::min(rest.find_first_of(" \t\r|["), rest.size()));
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Digits, then nothing or something that is no part of a number.
std::optional<std::int64_t> leading_count(std::string_view text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || count < 0) return std::nullopt;
  return count;
}

// "[rank3]:" of torchrun, "[Rank 3]" of Megatron; -1: not written.
int rank_in(std::string_view text) {
  for (const std::string_view marker : {"[Rank ", "[rank"}) {
    const std::optional<std::int64_t> rank = leading_count(token_behind(text, marker));
    if (rank && *rank < 1'000'000'000) return static_cast<int>(*rank);
  }
  return -1;
}

// Removes ESC [ ... letter.
std::string without_colours(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\x1b') {
      plain += text[i];
      continue;
    }
    if (i + 1 < text.size() && text[i + 1] == '[') {
      for (i += 2; i < text.size() && (text[i] < '@' || text[i] > '~');) ++i;
    }
  }
  return plain;
}

void Parser::refuse(std::string_view at, const std::string& what, std::string_view found, std::string_view expected) {
  if (failed()) return;
  constexpr std::size_t kShown = 40;
  std::string shown(found.substr(0, kShown));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, '?');
  Error error = input_error(fmt::format("{}: found `{}`, expected {}", what, shown, expected)).value();
  error.file = log_.file;
  error.line = line_.number;
  error.column = static_cast<int>(at.data() - line_.text.data()) + 1;
  error_ = std::move(error);
}

// Thousands may be set apart by commas.
double Parser::number(std::string_view token, std::string_view what, std::string_view expected) {
  std::string digits(token);
  std::erase(digits, ',');
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || !std::isfinite(value) || value < 0 || value > kMaxNumber) {
    refuse(token.data() == nullptr ? line_.text : token, std::string(what), token, expected);
    return 0;
  }
  return value;
}

void Parser::add_memory(const LoggedMemory& memory) {
  if (memory.bytes <= 0) return;  // devices that the framework cannot ask report 0
  for (LoggedMemory& known : log_.memory) {
    if (known.counter != memory.counter) continue;
    if (memory.bytes > known.bytes) known = memory;
    return;
  }
  log_.memory.push_back(memory);
}

// ---- JSON lines

bool Parser::is_json() const {
  const std::size_t first = line_.text.find_first_not_of(" \t");
  return first != std::string_view::npos && line_.text[first] == '{';
}

bool names_a_key(std::string_view text) {
  const auto is_named = [&](std::string_view name) { return has(text, fmt::format("\"{}\"", name)); };
  return std::any_of(kTimeKeys.begin(), kTimeKeys.end(), [&](const Key& key) { return is_named(key.name); }) ||
         std::any_of(kMemoryKeys.begin(), kMemoryKeys.end(), [&](const Key& key) { return is_named(key.name); }) ||
         is_named(kTokensKey);
}

// null counts as not written.
bool has_value(const nlohmann::json& object, std::string_view key) {
  const auto found = object.find(key);
  return found != object.end() && !found->is_null();
}

template <std::size_t n>
const Key* first_key(const nlohmann::json& object, const std::array<Key, n>& keys) {
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const Key& key) { return has_value(object, key.name); });
  return found == keys.end() ? nullptr : &*found;
}

double Parser::json_number(const nlohmann::json& object, std::string_view key, std::string_view expected) {
  const nlohmann::json& value = *object.find(key);
  const double number = value.is_number() ? value.get<double>() : -1;
  if (!value.is_number() || !std::isfinite(number) || number < 0 || number > kMaxNumber) {
    const std::size_t at = std::min(line_.text.find(fmt::format("\"{}\"", key)), line_.text.size());
    refuse(line_.text.substr(at), std::string(key),
           value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), expected);
    return 0;
  }
  return number;
}

std::int64_t Parser::json_count(const nlohmann::json& object, std::string_view key) {
  if (!has_value(object, key)) return -1;
  return static_cast<std::int64_t>(json_number(object, key, "a whole number"));
}

void Parser::read_json_memory(const nlohmann::json& object, LoggedMemory& memory) {
  const Key* key = first_key(object, kMemoryKeys);
  if (key == nullptr) return;
  memory.bytes = key->unit * json_number(object, key->name, "a number of at least 0");
  memory.rank = static_cast<int>(std::min<std::int64_t>(json_count(object, "rank"), 1'000'000'000));
  if (!has_value(object, "memory_counter")) return;
  const std::string name = object["memory_counter"].is_string() ? object["memory_counter"].get<std::string>() : "";
  if (name == "allocated")
    memory.counter = Counter::allocated;
  else if (name == "reserved")
    memory.counter = Counter::reserved;
  else if (name != "used")
    refuse(line_.text, "memory_counter", name, "allocated, reserved or used");
}

void Parser::take_json() {
  const nlohmann::json object = nlohmann::json::parse(line_.text.begin(), line_.text.end(), nullptr, false);
  if (object.is_discarded() || !object.is_object()) {
    if (names_a_key(line_.text) && !line_.is_cut_off)
      refuse(line_.text, "a line that starts with {", line_.text, "JSON");
    return;
  }
  LoggedStep step;
  step.line = line_.number;
  for (const std::string_view key : kStepKeys) {
    if (step.number < 0) step.number = json_count(object, key);
  }
  if (const Key* key = first_key(object, kTimeKeys)) {
    step.time_s = key->unit * json_number(object, key->name, "a number above 0");
    if (step.time_s <= 0) refuse(line_.text, std::string(key->name), "0", "a number above 0");
  } else if (step.number >= 0 && has_value(object, kTokensKey)) {
    step.tokens_per_s = json_number(object, kTokensKey, "a number of at least 0");
  }
  if (has_value(object, "global_batch"))
    step.global_batch = json_number(object, "global_batch", "a number of sequences");
  LoggedMemory memory;
  memory.line = line_.number;
  read_json_memory(object, memory);
  if (failed()) return;
  if (step.time_s > 0 || step.tokens_per_s > 0) log_.steps.push_back(step);
  add_memory(memory);
}

// ---- Megatron-LM, and what was made from it

// "iteration       10/     100": the text between the word and the slash.
std::optional<std::int64_t> megatron_iteration(std::string_view text) {
  constexpr std::string_view kWord = "iteration ";
  std::size_t at = text.find(kWord);
  if (at == std::string_view::npos) return std::nullopt;
  at = text.find_first_not_of(' ', at + kWord.size());
  const std::size_t slash = text.find('/', std::min(at, text.size()));
  if (at == std::string_view::npos || slash == std::string_view::npos) return std::nullopt;
  const std::string_view digits = text.substr(at, slash - at);
  if (digits.find_first_not_of("0123456789 ") != std::string_view::npos) return std::nullopt;
  return leading_count(digits);
}

bool Parser::take_megatron_step() {
  const std::optional<std::int64_t> iteration = megatron_iteration(line_.text);
  if (!iteration) return false;
  for (const Key& key : kMegatronTimes) {
    if (!has(line_.text, key.name)) continue;
    const std::string_view token = token_behind(line_.text, key.name);
    LoggedStep step;
    step.number = *iteration;
    step.line = line_.number;
    step.time_s = key.unit * number(token, "elapsed time per iteration", "a number above 0");
    if (step.time_s <= 0) refuse(line_.text, "elapsed time per iteration", token, "a number above 0");
    if (const std::string_view batch = token_behind(line_.text, "global batch size:"); !batch.empty()) {
      step.global_batch = number(batch, "global batch size", "a number of sequences");
    }
    if (!failed()) log_.steps.push_back(step);
    return true;
  }
  return false;
}

// Several ranks may have written their reports on one line.
bool Parser::take_megatron_memory() {
  if (!has(line_.text, kMegatronMemory)) return false;
  std::size_t begin = 0;
  while (begin < line_.text.size()) {
    const std::size_t end = std::min(line_.text.find("[Rank ", begin + 1), line_.text.size());
    const std::string_view report = line_.text.substr(begin, end - begin);
    begin = end;
    if (!has(report, kMegatronMemory)) continue;
    for (const auto& [marker, counter] :
         {std::pair("| max allocated:", Counter::allocated), std::pair("| max reserved:", Counter::reserved)}) {
      if (!has(report, marker)) continue;
      const double mib = number(token_behind(report, marker), std::string_view(marker).substr(2), "a number of MB");
      if (!failed()) add_memory({counter, mib * kMib, rank_in(report), line_.number});
    }
  }
  return true;
}

// ---- torchtitan

// Steps of its validation say "validate step:"; they train nothing.
void Parser::take_torchtitan() {
  const std::string_view text = line_.text;
  const std::size_t at = text.find("step:");
  if (at == std::string_view::npos || has(text, "validate step:")) return;
  const std::optional<std::int64_t> count = leading_count(token_behind(text, "step:"));
  const std::string_view marker = has(text, " tps:") ? " tps:" : " wps:";
  if (!count || !has(text, marker) || !has(text, "loss:")) return;
  LoggedStep step;
  step.number = *count;
  step.line = line_.number;
  step.device_tokens_per_s = number(token_behind(text, marker, at), marker.substr(1), "tokens/s of a device");
  std::string_view memory = token_behind(text, "memory:", at);
  double gib = 0;
  if (!memory.empty()) {
    memory = memory.substr(0, std::min(memory.find("GiB"), memory.size()));
    gib = number(memory, "memory", "a number of GiB");
  }
  if (failed()) return;
  if (step.device_tokens_per_s > 0) log_.steps.push_back(step);  // a first step may be so slow that it is rounded to 0
  add_memory({Counter::reserved, gib * kGib, rank_in(text), line_.number});
}

Result<TrainingLog> Parser::result() {
  if (error_) return tl::unexpected(std::move(*error_));
  if (!log_.steps.empty()) return std::move(log_);
  Error error =
      input_error("there is no training step in this log",
                  "expected lines of Megatron-LM (`iteration 10/ 100 | ... | elapsed time per iteration (ms): "
                  "1250.0 |`), of torchtitan (`step: 10  loss: 7.1  memory: 40.11GiB(42.21%)  tps: 7,123`), or "
                  "JSON such as {\"step\": 10, \"step_time_s\": 1.25}")
          .value();
  error.file = log_.file;
  error.line = std::max(1, line_.number);
  return tl::unexpected(std::move(error));
}

// ---- statistics

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

double seconds_of(const LoggedStep& step, const spec::Job& job) {
  if (step.time_s > 0) return step.time_s;
  const double tokens = job.training.global_batch * job.training.sequence;
  if (step.tokens_per_s > 0) return tokens / step.tokens_per_s;
  return tokens / (step.device_tokens_per_s * job.cluster.devices);
}

std::size_t warm_up(const std::vector<const LoggedStep*>& steps) {
  const auto first_step = std::find_if(steps.begin(), steps.end(), [&](const LoggedStep* step) {
    return step->number < 0 || step->number != steps.front()->number;
  });
  const auto lines_of_first = std::max<std::ptrdiff_t>(1, first_step - steps.begin());
  const auto share = static_cast<std::ptrdiff_t>(std::ceil(kWarmUpShare * static_cast<double>(steps.size())));
  const std::ptrdiff_t drop = std::max(lines_of_first, share);
  return drop < static_cast<std::ptrdiff_t>(steps.size()) ? static_cast<std::size_t>(drop) : 0;
}

tl::unexpected<Error> other_batch(const TrainingLog& log, const spec::Job& job) {
  const LoggedStep& last = log.steps.back();
  Error error = input_error(fmt::format("global batch size is {} here, but {} in the job", last.global_batch,
                                        job.training.global_batch),
                            fmt::format("write global_batch: {} below training: in the job", last.global_batch))
                    .value();
  error.file = log.file;
  error.line = last.line;
  return tl::unexpected(std::move(error));
}

}  // namespace

Result<TrainingLog> parse_training_log(std::string_view text, const std::string& file) {
  Parser parser(file);
  int number = 0;
  while (!text.empty() && !parser.failed()) {
    const std::size_t end = text.find('\n');
    const std::string plain = without_colours(text.substr(0, end));
    parser.take({plain, ++number, end == std::string_view::npos});
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return parser.result();
}

Result<TrainingLog> read_training_log(const std::string& path) {
  const Result<std::string> text = read_file(path, kMostRecordBytes, "a training log");
  if (!text) return tl::unexpected(text.error());
  return parse_training_log(*text, path);
}

Result<MeasuredStep> measured_step(const TrainingLog& log, const spec::Job& job) {
  std::vector<const LoggedStep*> steps;
  for (const LoggedStep& step : log.steps) {
    if (step.global_batch <= 0 || step.global_batch == job.training.global_batch) steps.push_back(&step);
  }
  if (steps.empty()) return other_batch(log, job);
  const std::size_t dropped = warm_up(steps);
  std::vector<double> seconds;
  for (std::size_t i = dropped; i < steps.size(); ++i) seconds.push_back(seconds_of(*steps[i], job));
  std::sort(seconds.begin(), seconds.end());
  MeasuredStep measured;
  measured.seconds = quantile(seconds, 0.5);
  measured.used = static_cast<int>(seconds.size());
  measured.dropped = static_cast<int>(dropped);
  measured.spread = (quantile(seconds, 0.9) - quantile(seconds, 0.1)) / (2 * measured.seconds);
  return measured;
}

}  // namespace twinpod::validate
