#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/served_report.hpp"
#include "report/trace_flows.hpp"

namespace twinpod::report {
namespace {

constexpr int kWorkers = 1;  // processes of the trace
constexpr int kServers = 2;

double in_us(std::int64_t ns) { return static_cast<double>(ns) * 1e-3; }

class TraceText {
 public:
  void name_process(int process, const char* name) {
    add(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":"{}"}}}})", process, name));
  }

  void name_thread(int process, const char* what, int place) {
    add(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{} {}"}}}})", process,
                    place + 1, what, place));
  }

  void worker_slice(const ps::WorkerStep& step, const char* name, double begin_s, double end_s) {
    const std::int64_t begin_ns = nanoseconds(begin_s);
    add(fmt::format(
        R"({{"ph":"X","name":"{}","cat":"worker","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"step":{}}}}})",
        name, kWorkers, step.worker + 1, in_us(begin_ns),
        in_us(std::max<std::int64_t>(0, nanoseconds(end_s) - begin_ns)), step.clock + 1));
  }

  void server_slice(const ps::Handled& one, std::string_view name) {
    std::string arguments = fmt::format(R"("step":{},"shard":{})", one.clock + 1, one.shard);
    if (one.worker != ps::kNobody) arguments += fmt::format(R"(,"worker":{})", one.worker);
    if (one.sent_ns > 0)
      arguments += fmt::format(R"(,"waited_s":{:.9f})", static_cast<double>(one.begin_ns - one.sent_ns) * 1e-9);
    if (one.updates > 0) arguments += fmt::format(R"(,"updates":{})", one.updates);
    if (one.pushed_bytes > 0) arguments += fmt::format(R"(,"pushed_bytes":{})", one.pushed_bytes);
    if (one.answers > 0) {
      arguments += fmt::format(R"(,"answers":{},"pulled_bytes":{},"staleness":{})", one.answers, one.pulled_bytes,
                               one.staleness);
    }
    add(fmt::format(
        R"({{"ph":"X","name":"{}","cat":"server","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})", name,
        kServers, one.server + 1, in_us(one.begin_ns), in_us(one.end_ns - one.begin_ns), arguments));
  }

  void waiting(int server, std::int64_t ns, int messages) {
    add(fmt::format(
        R"({{"ph":"C","name":"server {}: messages waiting","pid":{},"ts":{:.3f},"args":{{"messages":{}}}}})", server,
        kServers, in_us(ns), messages));
  }

  std::string end(std::int64_t left_out) {
    return fmt::format("{{\"traceEvents\":[\n{}\n],\n\"otherData\":{{\"server_messages_left_out\":{}}}}}\n", events_,
                       left_out);
  }

 private:
  void add(const std::string& event) {
    if (!events_.empty()) events_ += ",\n";
    events_ += event;
  }

  std::string events_;
};

void add_step(const ps::WorkerStep& step, TraceText& text) {
  const double passes_s = std::min(step.computed_s, step.end_s - step.begin_s - step.waited_s);
  const double ready_s = step.begin_s + step.waited_s;
  text.worker_slice(step, "wait for values", step.begin_s, ready_s);
  text.worker_slice(step, "passes", ready_s, ready_s + passes_s);
  text.worker_slice(step, "push", ready_s + passes_s, step.end_s);
}

// A message that updated values and answered pulls is an update.
std::string_view name_of_slice(const ps::Handled& one) {
  if (one.updates > 0) return "update";
  return one.answers > 0 ? "answer" : ps::name_of(one.kind);
}

// From their sender's hand to the server's, as far as they are known.
void add_queues(const ps::ServedReport& report, TraceText& text) {
  std::map<int, std::map<std::int64_t, int>> changes;  // by server, then time
  for (const ps::Handled& one : report.server_messages) {
    if (one.sent_ns == 0) continue;
    ++changes[one.server][one.sent_ns];
    --changes[one.server][one.begin_ns];
  }
  for (const auto& [server, times] : changes) {
    int messages = 0;
    for (const auto& [ns, change] : times) {
      if (change != 0) text.waiting(server, ns, messages += change);
    }
  }
}

}  // namespace

std::string served_trace(const ps::ServedReport& report, std::int64_t clock) {
  const auto is_wanted = [&](std::int64_t of) { return clock < 0 || of == clock; };
  TraceText text;
  text.name_process(kWorkers, "workers");
  for (int worker = 0; worker < static_cast<int>(report.worker_waited_s.size()); ++worker) {
    text.name_thread(kWorkers, "worker", worker);
  }
  int servers = 0;
  for (const ps::Handled& one : report.server_messages) servers = std::max(servers, one.server + 1);
  if (servers > 0) text.name_process(kServers, "servers");
  for (int server = 0; server < servers; ++server) text.name_thread(kServers, "server", server);
  for (const ps::WorkerStep& step : report.steps) {
    if (is_wanted(step.clock)) add_step(step, text);
  }
  for (const ps::Handled& one : report.server_messages) {
    if (is_wanted(one.clock)) text.server_slice(one, name_of_slice(one));
  }
  add_queues(report, text);
  return text.end(report.server_messages_left_out);
}

}  // namespace twinpod::report
