// A user's own schedule from a file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include "layout/check.hpp"
#include "program/order.hpp"

namespace twinpod::program {
namespace {

constexpr std::string_view kHead = "stage,order,phase,micro_batch,chunk";
constexpr std::size_t kMaxLines = 20'000'000;

tl::unexpected<Error> wrong(const std::string& file, int line, std::string message, std::string hint = "") {
  return tl::unexpected<Error>(Error{ErrorKind::input, std::move(message), std::move(hint), file, line, 0});
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (std::size_t from = 0;;) {
    const std::size_t comma = std::min(line.find(',', from), line.size());
    std::string_view cell = line.substr(from, comma - from);
    while (!cell.empty() && cell.front() == ' ') cell.remove_prefix(1);
    while (!cell.empty() && cell.back() == ' ') cell.remove_suffix(1);
    cells.push_back(cell);
    if (comma == line.size()) return cells;
    from = comma + 1;
  }
}

struct Row {
  int stage = 0;
  int order = 0;
  Action action;
  int line = 0;
};

// A whole number from 0 to below `end`.
Result<int> number(const std::string& file, int line, std::string_view what, std::string_view text, int end) {
  int value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size() || value < 0 || value >= end) {
    return wrong(file, line, fmt::format("{} is `{}`, but must be a whole number from 0 to {}", what, text, end - 1));
  }
  return value;
}

struct Limits {
  int stages = 1;
  int micro_batches = 1;
  int chunks = 1;
  std::size_t size() const { return index(stages, 0, 0); }
  std::size_t index(int stage, int chunk, int micro_batch) const {
    const auto size_of = [](int number) { return static_cast<std::size_t>(number); };
    return (size_of(stage) * size_of(chunks) + size_of(chunk)) * size_of(micro_batches) + size_of(micro_batch);
  }
};

Result<Row> row_of(const std::string& file, int line, std::string_view text, const Limits& limits) {
  const std::vector<std::string_view> cells = cells_of(text);
  if (cells.size() != 5)
    return wrong(file, line, fmt::format("{} values, but expected 5: {}", cells.size(), kHead), "0,0,F,0,0");
  struct Field {
    std::string_view name;
    std::string_view text;
    int end;
  };
  const std::array fields = {Field{"stage", cells[0], limits.stages}, Field{"order", cells[1], 2'000'000'000},
                             Field{"micro_batch", cells[3], limits.micro_batches},
                             Field{"chunk", cells[4], limits.chunks}};
  std::array<int, 4> values{};
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Result<int> value = number(file, line, fields[i].name, fields[i].text, fields[i].end);
    if (!value) return tl::unexpected(value.error());
    values[i] = *value;
  }
  Row row{values[0], values[1], {Phase::forward, values[2], values[3], false}, line};
  if (cells[2] == "B") {
    row.action.phase = Phase::backward;
  } else if (cells[2] == "W") {
    row.action.phase = Phase::backward_weight;
  } else if (cells[2] != "F") {
    return wrong(file, line, fmt::format("phase is `{}`, but must be F, B or W", cells[2]));
  }
  return row;
}

Result<std::vector<Row>> rows_of(const std::string& text, const std::string& file, const Limits& limits) {
  std::vector<Row> rows;
  std::istringstream stream(text);
  std::string line;
  int number = 0;
  bool headed = false;
  while (std::getline(stream, line)) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line.front() == '#') continue;
    if (!headed) {
      if (line != kHead) return wrong(file, number, fmt::format("expected the head line `{}`", kHead));
      headed = true;
      continue;
    }
    if (rows.size() == kMaxLines) return wrong(file, number, fmt::format("more than {} actions", kMaxLines));
    Result<Row> row = row_of(file, number, line, limits);
    if (!row) return tl::unexpected(row.error());
    rows.push_back(*row);
  }
  if (!headed) return wrong(file, 1, fmt::format("expected the head line `{}`, but the file is empty", kHead));
  return rows;
}

// Lines of F, B and W of one chunk and micro-batch on one stage; 0: there is none.
struct Seen {
  std::array<int, 3> lines{};
  std::array<int, 3> orders{};
};

constexpr std::string_view kLetters = "FBW";

std::size_t letter_of(Phase phase) { return phase == Phase::forward ? 0 : phase == Phase::backward_weight ? 2 : 1; }

// Each stage, chunk and micro-batch has one F, one B after it and at most one W after that.
Result<std::vector<Seen>> seen_once(const std::vector<Row>& rows, const std::string& file, const Limits& limits) {
  std::vector<Seen> seen(limits.size());
  int last = 1;
  const auto name = [&](std::size_t at, std::size_t letter) {
    const auto m = static_cast<std::size_t>(limits.micro_batches);
    const auto v = static_cast<std::size_t>(limits.chunks);
    return fmt::format("{} of stage {}, micro-batch {}, chunk {}", kLetters[letter], at / m / v, at % m, at / m % v);
  };
  for (const Row& row : rows) {
    const std::size_t at = limits.index(row.stage, row.action.chunk, row.action.micro_batch);
    const std::size_t letter = letter_of(row.action.phase);
    if (seen[at].lines[letter] > 0)
      return wrong(file, row.line, fmt::format("{} stands in line {} too", name(at, letter), seen[at].lines[letter]));
    seen[at].lines[letter] = row.line;
    seen[at].orders[letter] = row.order;
    last = std::max(last, row.line);
  }
  for (std::size_t at = 0; at < seen.size(); ++at) {
    for (const std::size_t letter : {0U, 1U}) {
      if (seen[at].lines[letter] == 0)
        return wrong(file, last, fmt::format("{} is missing", name(at, letter)),
                     fmt::format("every stage and chunk needs micro-batches 0 to {}", limits.micro_batches - 1));
    }
    for (const std::size_t letter : {1U, 2U}) {
      if (seen[at].lines[letter] > 0 && seen[at].orders[letter] <= seen[at].orders[letter - 1])
        return wrong(
            file, seen[at].lines[letter],
            fmt::format("{} comes before its {}, or at the same time", name(at, letter), kLetters[letter - 1]));
    }
  }
  return seen;
}

}  // namespace

Result<Order> read_order(const std::string& text, const std::string& file, const spec::Job& job) {
  const Limits limits{job.layout.pp, static_cast<int>(spec::micro_batches(job)), job.layout.virtual_stages};
  Result<std::vector<Row>> rows = rows_of(text, file, limits);
  if (!rows) return tl::unexpected(rows.error());
  const Result<std::vector<Seen>> seen = seen_once(*rows, file, limits);
  if (!seen) return tl::unexpected(seen.error());
  std::stable_sort(rows->begin(), rows->end(), [](const Row& a, const Row& b) { return a.order < b.order; });
  Order order;
  order.chunks = limits.chunks;
  order.micro_batches = limits.micro_batches;
  order.stages.resize(static_cast<std::size_t>(limits.stages));
  for (const Row& row : *rows) {
    const std::size_t at = limits.index(row.stage, row.action.chunk, row.action.micro_batch);
    Action action = row.action;
    if (action.phase == Phase::backward && (*seen)[at].lines[2] > 0) action.phase = Phase::backward_input;
    order.stages[static_cast<std::size_t>(row.stage)].push_back(action);
  }
  const Result<Slots> slots = run_slots(order, {});
  if (!slots) {
    Error error = slots.error();
    error.file = file;
    return tl::unexpected(error);
  }
  return order;
}

}  // namespace twinpod::program
