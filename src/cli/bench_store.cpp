#include "cli/bench_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/progress.hpp"
#include "core/quote.hpp"
#include "core/signals.hpp"
#include "core/table.hpp"
#include "core/temporary.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/json_parts.hpp"
#include "store/direct_files.hpp"
#include "store/extents.hpp"
#include "store/measure.hpp"
#include "store/open_files.hpp"

namespace twinpod::cli {
namespace {

using nlohmann::ordered_json;

struct StoreRequest {
  std::string folder;
  store::MeasureRequest measure;
  int rounds = 5;
};

// Bytes a second, the best of the rounds; 0: not measured.
struct Rates {
  double write = 0;
  double read = 0;
  double bare_write = 0;
  double bare_read = 0;
  double summed_write = 0;
  double summed_read = 0;
  double fio_write = 0;
  double fio_read = 0;
  double checksum = 0;
};

Result<StoreRequest> store_request_of(const Arguments& arguments) {
  StoreRequest request;
  if (arguments.words.size() != 2) {
    return input_error(fmt::format("bench store takes one folder, but {} are given", arguments.words.size() - 1),
                       "twinpod bench store runs/");
  }
  request.folder = arguments.words[1];
  const std::string text = arguments.value_or("bytes", "1GiB");
  const Result<double> bytes = parse_quantity(text, Quantity::bytes);
  constexpr double kLeast = 1 << 20;
  if (!bytes || *bytes < kLeast || *bytes > 1e13) {
    return input_error(fmt::format("--bytes {}: expected one size of at least 1 MiB", text), "--bytes 1GiB");
  }
  request.measure.bytes = static_cast<std::int64_t>(*bytes);
  const Result<int> ranks = whole_number(arguments, "ranks", 1, 1);
  if (!ranks) return tl::unexpected(ranks.error());
  const Result<int> rounds = whole_number(arguments, "rounds", 1, request.rounds);
  if (!rounds) return tl::unexpected(rounds.error());
  request.measure.ranks = *ranks;
  request.rounds = *rounds;
  return request;
}

// What the command prints; nullopt: there is no such command, or it failed.
std::optional<std::string> output_of(const std::string& command) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const pid_t pid = fork_child(ChildKind::executes);
  if (pid == 0) {
    dup2(ends[1], STDOUT_FILENO);
    execl("/bin/sh", "sh", "-c", fmt::format("exec {}", command).c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  if (pid < 0) close(ends[0]);
  if (pid < 0) return std::nullopt;
  std::string text;
  std::array<char, 4096> part{};
  ssize_t count = 0;
  while ((count = read(ends[0], part.data(), part.size())) > 0)
    text.append(part.data(), static_cast<std::size_t>(count));
  close(ends[0]);
  int status = -1;
  waitpid(pid, &status, 0);
  forget_child(pid);
  if (status != 0) return std::nullopt;
  return text;
}

// The same files: as many, as long, in writes as long, as many of them under way, direct if ours are, and a sync at the
// end. It reads what it wrote.
double fio_rate(const StoreRequest& request, const std::string& folder, bool write, const std::string& way) {
  const bool ring = way.find("io_uring") != std::string::npos && way.find("refused") == std::string::npos;
  const std::string command = fmt::format(
      "fio --name=twinpod --directory={} --rw={} --bs={} --size={} --numjobs={} --group_reporting --direct={} "
      "--ioengine={} --iodepth={} --end_fsync=1 --unlink={} --output-format=json 2>/dev/null",
      shell_quoted(folder), write ? "write" : "read", store::kMoveBytes,
      request.measure.bytes / request.measure.ranks / store::kMoveBytes * store::kMoveBytes, request.measure.ranks,
      way.starts_with("direct") ? 1 : 0, ring ? "io_uring" : "psync", ring ? store::kMovesInFlight : 1, write ? 0 : 1);
  const std::optional<std::string> text = output_of(command);
  const ordered_json json = ordered_json::parse(text.value_or(""), nullptr, false);
  if (!json.is_object() || !json.contains("jobs") || json["jobs"].empty()) return 0;
  return json["jobs"][0].value(write ? "write" : "read", ordered_json::object()).value("bw_bytes", 0.0);
}

Result<Rates> measure(const StoreRequest& request, const std::string& folder, store::Files& files,
                      const std::string& way) {
  store::StoreMeasurer measurer(files, folder, request.measure);
  const auto bytes = static_cast<double>(measurer.bytes());
  const auto better = [&](double& rate, double seconds) { rate = std::max(rate, seconds > 0 ? bytes / seconds : 0); };
  const bool has_fio = output_of("fio --version 2>/dev/null").has_value();
  const bool enough = request.measure.bytes / request.measure.ranks >= store::kMoveBytes;
  Rates rates;
  Progress progress("bench store", static_cast<std::size_t>(request.rounds));
  for (int round = 0; round < request.rounds; ++round) {
    const Result<store::StoreSeconds> seconds = measurer.save_and_load();
    if (!seconds) return tl::unexpected(seconds.error());
    better(rates.write, seconds->save);
    better(rates.read, seconds->load);
    better(rates.bare_write, seconds->bare_write);
    better(rates.bare_read, seconds->bare_read);
    better(rates.summed_write, seconds->summed_write);
    better(rates.summed_read, seconds->summed_read);
    better(rates.checksum, measurer.checksum_seconds());
    if (has_fio && enough) {
      rates.fio_write = std::max(rates.fio_write, fio_rate(request, folder, true, way));
      rates.fio_read = std::max(rates.fio_read, fio_rate(request, folder, false, way));
    }
    progress.advance();
  }
  return rates;
}

std::string json_text(const StoreRequest& request, const Rates& rates, const std::string& way) {
  const auto or_null = [](double rate) { return rate > 0 ? ordered_json(rate) : ordered_json(nullptr); };
  return report::printed({{"folder", request.folder},
                          {"bytes", request.measure.bytes},
                          {"ranks", request.measure.ranks},
                          {"rounds", request.rounds},
                          {"way", way},
                          {"write_bytes_per_s", rates.write},
                          {"read_bytes_per_s", rates.read},
                          {"fio_write_bytes_per_s", or_null(rates.fio_write)},
                          {"fio_read_bytes_per_s", or_null(rates.fio_read)},
                          {"bare_write_bytes_per_s", rates.bare_write},
                          {"bare_read_bytes_per_s", rates.bare_read},
                          {"summed_write_bytes_per_s", rates.summed_write},
                          {"summed_read_bytes_per_s", rates.summed_read},
                          {"checksum_bytes_per_s", rates.checksum}});
}

std::string share(double rate, double of) { return of > 0 ? fmt::format("{:.0f} %", 100 * rate / of) : "-"; }

std::string table_text(const StoreRequest& request, const Rates& rates, const std::string& way) {
  const auto rate = [](double value) { return value > 0 ? format_bytes_per_s(value) : "-"; };
  Table table({{""}, {"write", Align::right}, {"read", Align::right}}, {.indent = 2});
  table.row({"save and load", rate(rates.write), rate(rates.read)});
  table.row({"fio", rate(rates.fio_write), rate(rates.fio_read)});
  table.row({"the bytes alone, with checksums", rate(rates.summed_write), rate(rates.summed_read)});
  table.row({"the bytes alone, without", rate(rates.bare_write), rate(rates.bare_read)});
  table.rule();
  table.row({"save and load / fio", share(rates.write, rates.fio_write), share(rates.read, rates.fio_read)});
  table.row({"with / without checksums", share(rates.summed_write, rates.bare_write),
             share(rates.summed_read, rates.bare_read)});
  std::string text =
      fmt::format("{}: {} of {}, {}, the best of {}\n\n{}\n  checksums in memory: {}\n", request.folder,
                  format_bytes(static_cast<double>(request.measure.bytes)), counted(request.measure.ranks, "rank"), way,
                  counted(request.rounds, "round"), table.text(), rate(rates.checksum));
  if (rates.fio_write <= 0) text += "  fio is not here, or failed: apt install fio measures it in turn\n";
  return text;
}

}  // namespace

Result<std::string> bench_store(const Arguments& arguments) {
  const Result<StoreRequest> request = store_request_of(arguments);
  if (!request) return tl::unexpected(request.error());
  if (!std::filesystem::is_directory(request->folder)) {
    return input_error(fmt::format("{}: there is no such folder", request->folder), "make it, or name another");
  }
  const Result<store::OpenedStore> opened = store::open_files(request->folder);
  if (!opened) return tl::unexpected(opened.error());
  const Result<TemporaryFolder> made = TemporaryFolder::in(opened->root, "twinpod-bench-store-");
  if (!made) return tl::unexpected(made.error());
  const std::string& folder = made->path();
  const std::string way = store::way_of_moving(folder);
  const Result<Rates> rates = measure(*request, folder, *opened->files, way);
  if (!rates) return tl::unexpected(rates.error());
  return arguments.has("json") ? json_text(*request, *rates, way) : table_text(*request, *rates, way);
}

}  // namespace twinpod::cli
