// twinpod bench: how fast this machine is, and how fast it communicates.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "cli/bench_expect.hpp"
#include "cli/bench_machine.hpp"
#include "cli/bench_peers.hpp"
#include "cli/bench_ps.hpp"
#include "cli/bench_store.hpp"
#include "cli/command.hpp"
#include "cli/values.hpp"
#include "comm/communicator.hpp"
#include "comm/fault.hpp"
#include "comm/measure.hpp"
#include "core/thousands.hpp"
#include "core/units.hpp"
#include "report/comm_report.hpp"

namespace twinpod::cli {
namespace {

using comm::Verb;

constexpr std::array kFlagsOfBench = {
    Flag{"ranks", "N",
         "ranks to start on this machine (default 2, machine: one a core; under mpirun: those that it started)", ""},
    Flag{"verb", "NAMES", "all_reduce,broadcast,... (default: all)", ""},
    Flag{"bytes", "A..B", "sizes: 8..256MiB (default 8..64MiB), or one size", ""},
    Flag{"factor", "N", "how much larger each size is than the one before (default 4)", ""},
    Flag{"type", "NAME", "f32, f64, bf16, f16, i32 or i64 (default f32)", ""},
    Flag{"op", "NAME", "sum, product, min, max or average (default sum)", ""},
    Flag{"root", "N", "of broadcast, reduce, gather, scatter (default 0)", ""},
    Flag{"algorithm", "NAME",
         "inlined, staged, mapped, remote, native, or a schedule: ring, tree, ... (default: by size)", ""},
    Flag{"memory", "KIND", "shared: buffers that all ranks can reach; private: ordinary ones (default shared)", ""},
    Flag{"threads", "", "ranks are threads of one process", ""},
    Flag{"iterations", "N", "calls in a block (default: what takes about 3 ms)", ""},
    Flag{"blocks", "N", "blocks, of which the best counts (default 12)", ""},
    Flag{"warmup", "N", "calls before that (default 2)", ""},
    Flag{"no-check", "", "do not check the results", ""},
    Flag{"on", "FILE", "what to expect: the file of bench machine (default: a quick look at messages)", ""},
    Flag{"against", "NAMES",
         "openmpi,gloo,memory: measure them in turn in the same run; memory: what two ranks could at best", ""},
    Flag{"timeout", "TIME", "how long a rank waits for another (default 30 s)", ""},
    Flag{"fault", "KIND:RANK@N",
         "make a rank fail at an operation, to see what happens: kill, stop, exit, skip, verb, size", ""},
    Flag{"recording", "FILE", "where to write what the ranks did last if the run fails (default twinpod-failure.json)",
         ""},
    Flag{"output", "FILE", "machine: where to write the cluster file, for --on FILE of the other commands", "", "o"},
    Flag{"disk", "FOLDER", "machine: where to measure the disk (default: here)", ""},
    Flag{"quick", "", "machine: fewer shapes and sizes", ""},
    Flag{
        "rounds", "N",
        "store: measure so often, in turn with fio; the best counts (default 5). ps: in turn with messages (default 3)",
        ""},
    Flag{"tcp", "PORT", "ps: over TCP on 127.0.0.1, from this port on, instead of shared memory", ""},
};

// The name of a flag's value in a table.
template <typename E, std::size_t N>
Result<E> one_name(const Arguments& arguments, std::string_view flag, const spec::NameTable<E, N>& table, E fallback) {
  const auto text = arguments.value(flag);
  if (!text) return fallback;
  const Result<std::vector<E>> found = names(flag, *text, table);
  if (!found) return tl::unexpected(found.error());
  if (found->size() != 1) return input_error(fmt::format("--{} {}: expected one name", flag, *text));
  return found->front();
}

Result<std::size_t> size_in(const std::string& whole, std::string_view text) {
  const Result<double> bytes = parse_quantity(text, Quantity::bytes);
  constexpr double kMost = 1e13;
  if (!bytes || *bytes < 0 || *bytes > kMost) {
    return input_error(fmt::format("--bytes {}: expected a size or a range of sizes", whole), "--bytes 8..256MiB");
  }
  return static_cast<std::size_t>(*bytes);
}

Result<std::vector<std::size_t>> sizes_of(const Arguments& arguments) {
  const std::string text = arguments.value_or("bytes", "8..64MiB");
  const Result<int> factor = whole_number(arguments, "factor", 2, 4);
  if (!factor) return tl::unexpected(factor.error());
  const std::size_t dots = text.find("..");
  const Result<std::size_t> first = size_in(text, std::string_view(text).substr(0, dots));
  if (!first) return tl::unexpected(first.error());
  if (dots == std::string::npos) return std::vector<std::size_t>{*first};
  const Result<std::size_t> last = size_in(text, std::string_view(text).substr(dots + 2));
  if (!last) return tl::unexpected(last.error());
  if (*last < *first || *first == 0) {
    return input_error(fmt::format("--bytes {}: expected a range that rises, from 1 byte on", text),
                       "--bytes 8..256MiB");
  }
  std::vector<std::size_t> sizes;
  for (std::size_t size = *first; size <= *last; size *= static_cast<std::size_t>(*factor)) sizes.push_back(size);
  if (sizes.back() < *last) sizes.push_back(*last);  // who asks for 256 MiB wants to see it
  return sizes;
}

Result<comm::Choice> choice_of(const Arguments& arguments) {
  const std::string text = arguments.value_or("algorithm", "automatic");
  for (const auto& [name, method] : comm::kMethodNames) {
    if (name == text && method != comm::Method::scheduled) return comm::Choice{method};
  }
  const Result<collective::Algorithm> algorithm = collective::algorithm_named(text);
  if (!algorithm) {
    return input_error(
        fmt::format("--algorithm {}: expected inlined, staged, mapped, remote, native or a schedule", text),
        algorithm.error().hint);
  }
  return comm::Choice{comm::Method::scheduled, *algorithm};
}

bool is_divided(Verb verb) {
  return verb == Verb::reduce_scatter || verb == Verb::all_gather || verb == Verb::scatter || verb == Verb::gather ||
         verb == Verb::all_to_all;
}

struct Request {
  std::vector<Verb> verbs = {};
  std::vector<std::size_t> sizes = {};
  comm::Call call = {};  // type, op, root, choice
  comm::MeasureRequest measure = {};
  std::vector<std::string> against = {};
  std::optional<Expectation> expectation = {};  // of --on
  comm::Options options = {};
};

// A size is that of nccl-tests, rounded down to whole elements for each rank.
std::vector<comm::Call> calls_of(const Request& request, int ranks) {
  std::vector<comm::Call> calls;
  for (const Verb verb : request.verbs) {
    if (verb == Verb::send && ranks < 2) continue;
    for (const std::size_t size : request.sizes) {
      comm::Call call = request.call;
      call.verb = verb;
      call.peer = (call.root + 1) % ranks;
      const auto parts = static_cast<std::size_t>(is_divided(verb) ? ranks : 1);
      call.count = verb == Verb::barrier ? 0 : size / comm::size_of(call.type) / parts;
      const bool has_schedule = call.choice.method == comm::Method::scheduled;
      if (has_schedule && !collective::supports(verb, call.choice.algorithm)) continue;
      if (call.count == 0 && verb != Verb::barrier) continue;
      calls.push_back(call);
      if (verb == Verb::barrier) break;
    }
  }
  return calls;
}

Result<void> read_numbers(const Arguments& arguments, Request& request) {
  for (const auto& [name, place, low] :
       {std::tuple{"iterations", &request.measure.iterations, 1}, std::tuple{"blocks", &request.measure.blocks, 1},
        std::tuple{"warmup", &request.measure.warmup, 0}, std::tuple{"root", &request.call.root, 0}}) {
    const Result<int> value = whole_number(arguments, name, low, *place);
    if (!value) return tl::unexpected(value.error());
    *place = *value;
  }
  if (const auto text = arguments.value("timeout")) {
    const Result<double> seconds = parse_quantity(*text, Quantity::seconds);
    if (!seconds || *seconds <= 0)
      return input_error(fmt::format("--timeout {}: expected a time", *text), "--timeout 30s");
    request.options.timeout_s = *seconds;
  }
  if (const auto text = arguments.value("fault")) {
    const Result<comm::Fault> fault = comm::parse_fault(*text);
    if (!fault) return tl::unexpected(fault.error());
    const bool one_rank = fault->kind == comm::FaultKind::kill || fault->kind == comm::FaultKind::stop ||
                          fault->kind == comm::FaultKind::exit;
    if (one_rank && arguments.has("threads")) {
      return input_error(fmt::format("--fault {}: threads live and die together", *text), "without --threads");
    }
    request.options.fault = *fault;
  }
  return {};
}

Result<void> read_names(const Arguments& arguments, Request& request) {
  const Result<comm::ElementType> type = one_name(arguments, "type", comm::kElementTypeNames, comm::ElementType::f32);
  if (!type) return tl::unexpected(type.error());
  const Result<comm::ReduceOp> op = one_name(arguments, "op", comm::kReduceOpNames, comm::ReduceOp::sum);
  if (!op) return tl::unexpected(op.error());
  const Result<comm::Choice> choice = choice_of(arguments);
  if (!choice) return tl::unexpected(choice.error());
  request.call.type = *type;
  request.call.op = *op;
  request.call.choice = *choice;
  const std::string memory = arguments.value_or("memory", "shared");
  if (memory != "shared" && memory != "private") {
    return input_error(fmt::format("--memory {}: expected shared or private", memory));
  }
  request.measure.shared = memory == "shared";
  return {};
}

Result<Request> request_of(const Arguments& arguments) {
  Request request;
  for (const auto& [name, verb] : collective::kVerbNames) request.verbs.push_back(verb);
  if (const auto text = arguments.value("verb")) {
    const Result<std::vector<Verb>> verbs = names("verb", *text, collective::kVerbNames);
    if (!verbs) return tl::unexpected(verbs.error());
    request.verbs = *verbs;
  }
  const Result<std::vector<std::size_t>> sizes = sizes_of(arguments);
  if (!sizes) return tl::unexpected(sizes.error());
  request.sizes = *sizes;
  if (Result<void> read = read_names(arguments, request); !read) return tl::unexpected(read.error());
  if (Result<void> read = read_numbers(arguments, request); !read) return tl::unexpected(read.error());
  request.measure.check = !arguments.has("no-check");
  request.measure.most_s = 1.5;  // a row with peers that take seconds for a call
  request.options.recording_path = arguments.value_or("recording", "twinpod-failure.json");
  if (const auto text = arguments.value("against")) {
    std::string_view rest = *text;
    while (!rest.empty()) {
      request.against.emplace_back(rest.substr(0, rest.find(',')));
      rest.remove_prefix(std::min(rest.size(), request.against.back().size() + 1));
    }
    if (Result<void> known = check_peers(request.against); !known) return tl::unexpected(known.error());
  }
  return request;
}

Result<std::string> bench_ranks(const Request& request, const std::string& transport, bool json,
                                comm::Communicator& world) {
  report::CommBench bench{.ranks = comm::size_of(world), .transport = transport};
  bench.shared = request.measure.shared && transport != "mpi";
  comm::MeasureRequest measure = request.measure;
  measure.calls = calls_of(request, bench.ranks);
  if (comm::rank_of(world) == 0) measure.peers = start_peers(request.against, bench.ranks);
  bench.peers = request.against;
  std::optional<Expectation> expectation = request.expectation;
  // A rehearsal of a failure counts operations; no others may come before.
  if (!expectation && bench.ranks > 1 && request.options.fault.kind == comm::FaultKind::none) {
    Result<Expectation> quick = expectation_from_messages(world, transport);
    if (!quick) return tl::unexpected(quick.error());
    expectation = std::move(*quick);
  }
  Result<std::vector<comm::Measurement>> rows = comm::measure(world, measure);
  if (!rows) return tl::unexpected(rows.error());
  bench.rows = std::move(*rows);
  if (expectation) {
    expect(*expectation, bench.ranks, bench.rows);
    bench.expected_basis = expectation->basis;
  }
  return json ? report::comm_bench_json(bench) : report::comm_bench_text(bench);
}

Result<std::string> bench_comm(const Arguments& arguments) {
  Result<Request> request = request_of(arguments);
  if (!request) return tl::unexpected(request.error());
  if (const auto file = arguments.value("on")) {
    Result<Expectation> expectation = expectation_from_file(arguments, *file);
    if (!expectation) return tl::unexpected(expectation.error());
    request->expectation = std::move(*expectation);
  }
  const Result<int> ranks = whole_number(arguments, "ranks", 1, 2);
  if (!ranks) return tl::unexpected(ranks.error());
  const bool over_mpi = comm::started_by_mpi() && !arguments.has("ranks");
  if (!over_mpi && request->call.root >= *ranks) {
    return input_error(
        fmt::format("--root {}: there {} {}", request->call.root, *ranks == 1 ? "is" : "are", counted(*ranks, "rank")));
  }
  if (!over_mpi && request->options.fault.kind != comm::FaultKind::none && request->options.fault.rank >= *ranks) {
    return input_error(fmt::format("--fault of rank {}: there {} {}", request->options.fault.rank,
                                   *ranks == 1 ? "is" : "are", counted(*ranks, "rank")));
  }
  const std::string transport = over_mpi ? "mpi" : arguments.has("threads") ? "threads" : "processes";
  const comm::Body body = [&](comm::Communicator& world) {
    return bench_ranks(*request, transport, arguments.has("json"), world);
  };
  if (over_mpi) return comm::run_mpi(request->options, body);
  if (arguments.has("threads")) return comm::run_threads(*ranks, request->options, body);
  return comm::run_processes(*ranks, request->options, body);
}

Result<std::string> bench(const Arguments& arguments) {
  if (arguments.words == std::vector<std::string>{"comm"}) return bench_comm(arguments);
  if (arguments.words == std::vector<std::string>{"machine"}) return bench_machine(arguments);
  if (arguments.words == std::vector<std::string>{"ps"}) return bench_ps(arguments);
  if (!arguments.words.empty() && arguments.words.front() == "store") return bench_store(arguments);
  return input_error(
      "bench takes what to measure: comm, machine, ps or store",
      "twinpod bench comm --ranks 4, twinpod bench machine -o here.yaml, twinpod bench ps, or twinpod bench store DIR");
}

}  // namespace

const Command kBench = {
    "bench",
    "comm | machine | ps | store DIR [flags]",
    "how fast ranks communicate here, beside other libraries; this machine as a cluster file; how fast a parameter "
    "server is; how fast checkpoints are saved and loaded",
    "twinpod bench comm --ranks 4\n"
    "twinpod bench comm --verb all_reduce --bytes 8..256MiB --against openmpi,gloo\n"
    "mpirun -n 64 twinpod bench comm --json\n"
    "twinpod bench machine -o here.yaml\n"
    "twinpod bench comm --on here.yaml\n"
    "twinpod bench ps --bytes 16MiB\n"
    "twinpod bench store runs/ --bytes 4GiB --ranks 2\n",
    kFlagsOfBench,
    bench};

}  // namespace twinpod::cli
