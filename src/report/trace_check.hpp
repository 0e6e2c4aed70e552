// For tests: does a text hold the rules of Chrome's trace event format, as far as twinpod uses it?
//
//     EXPECT_EQ(trace_fault(nlohmann::json::parse(text)), "");
//
// Phases and their required keys with their types; slices of a thread in order and never partly over each other;
// counters in order; each arrow with one start and one finish, in order of time, and each end within a slice.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace twinpod::report {

struct CheckedSlice {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

struct CheckedFlow {
  int starts = 0;
  int finishes = 0;
  std::int64_t start_ns = 0;
  std::int64_t last_ns = 0;    // of steps and finishes
  std::int64_t first_ns = -1;  // of them
};

using ThreadId = std::pair<int, int>;
using CheckedThreads = std::map<ThreadId, std::vector<CheckedSlice>>;

inline std::int64_t event_ns(const nlohmann::json& event, const char* key) {
  return std::llround(event.at(key).get<double>() * 1000);
}

inline std::string missing_key(const nlohmann::json& event) {
  using Value = nlohmann::json;
  const auto has = [&](const char* key, bool (Value::*is)() const noexcept) {
    return event.contains(key) && (event.at(key).*is)();
  };
  if (!event.is_object() || !has("ph", &Value::is_string) || event.at("ph").get<std::string>().size() != 1) return "ph";
  const char phase = event.at("ph").get<std::string>()[0];
  if (std::string("XMCstf").find(phase) == std::string::npos) return "a known ph";
  if (!has("name", &Value::is_string)) return "name";
  if (!has("pid", &Value::is_number_integer)) return "pid";
  if (phase != 'M' && !(has("ts", &Value::is_number) && event.at("ts").get<double>() >= 0)) return "ts";
  const bool on_thread = phase == 'X' || phase == 's' || phase == 't' || phase == 'f';
  if (on_thread && !has("tid", &Value::is_number_integer)) return "tid";
  if (on_thread && !has("cat", &Value::is_string)) return "cat";
  if (phase == 'X' && !(has("dur", &Value::is_number) && event.at("dur").get<double>() >= 0)) return "dur";
  if (on_thread && phase != 'X' && !has("id", &Value::is_number_integer)) return "id";
  if ((phase == 't' || phase == 'f') && event.value("bp", "") != "e") return "bp";
  if (phase == 'X' || phase == 'M' || phase == 'C') {
    if (!has("args", &Value::is_object)) return "args";
  }
  if (phase == 'M') {
    const std::string name = event.at("name").get<std::string>();
    if (name.starts_with("thread_") && !has("tid", &Value::is_number_integer)) return "tid";
    const char* key = name.ends_with("sort_index") ? "sort_index" : "name";
    if (!event.at("args").contains(key)) return "the argument of a metadata event";
  }
  if (phase == 'C') {
    if (event.at("args").empty()) return "a counter's value";
    for (const auto& value : event.at("args")) {
      if (!value.is_number()) return "a number as a counter's value";
    }
  }
  return "";
}

// Slices are nested or apart, and come in the order of their start.
inline std::string slice_fault(const CheckedThreads& threads) {
  for (const auto& [id, slices] : threads) {
    std::vector<CheckedSlice> open;
    std::int64_t last = 0;
    for (const CheckedSlice& slice : slices) {
      if (slice.start_ns < last) return fmt::format("thread {}: a slice before the one before it", id.second);
      last = slice.start_ns;
      while (!open.empty() && open.back().end_ns <= slice.start_ns) open.pop_back();
      if (!open.empty() && slice.end_ns > open.back().end_ns) {
        return fmt::format("thread {}: slices overlap at {} ns", id.second, slice.start_ns);
      }
      open.push_back(slice);
    }
  }
  return "";
}

inline bool is_in_slice(const CheckedThreads& threads, const nlohmann::json& event) {
  const auto found = threads.find({event.at("pid").get<int>(), event.at("tid").get<int>()});
  if (found == threads.end()) return false;
  const std::int64_t time = event_ns(event, "ts");
  // Slices of one op each do not nest: the last that has begun.
  auto slice = std::upper_bound(found->second.begin(), found->second.end(), time,
                                [](std::int64_t t, const CheckedSlice& s) { return t < s.start_ns; });
  while (slice != found->second.begin()) {
    --slice;
    if (time < slice->end_ns) return true;
    if (slice->end_ns > slice->start_ns) return false;
  }
  return false;
}

inline void add_flow(const nlohmann::json& event, CheckedFlow& flow) {
  const std::int64_t time = event_ns(event, "ts");
  if (event.at("ph") == "s") {
    ++flow.starts;
    flow.start_ns = time;
    return;
  }
  flow.finishes += event.at("ph") == "f" ? 1 : 0;
  flow.last_ns = std::max(flow.last_ns, time);
  flow.first_ns = flow.first_ns < 0 ? time : std::min(flow.first_ns, time);
}

// What is wrong with a trace; empty: nothing.
inline std::string trace_fault(const nlohmann::json& trace) {
  if (!trace.is_object() || !trace.contains("traceEvents") || !trace.at("traceEvents").is_array()) return "traceEvents";
  CheckedThreads threads;
  std::map<int, ThreadId> thread_names;
  std::map<std::pair<int, std::string>, std::int64_t> counters;
  for (const auto& event : trace.at("traceEvents")) {
    const std::string missing = missing_key(event);
    if (!missing.empty()) return fmt::format("no {} in {}", missing, event.dump());
    const std::string phase = event.at("ph");
    if (phase == "X") {
      const std::int64_t start = event_ns(event, "ts");
      threads[{event.at("pid").get<int>(), event.at("tid").get<int>()}].push_back(
          {start, start + event_ns(event, "dur")});
    }
    if (phase == "C") {
      std::int64_t& last = counters[{event.at("pid").get<int>(), event.at("name").get<std::string>()}];
      if (event_ns(event, "ts") < last) return "a counter runs backwards: " + event.dump();
      last = event_ns(event, "ts");
    }
  }
  if (std::string fault = slice_fault(threads); !fault.empty()) return fault;
  std::map<std::int64_t, CheckedFlow> flows;
  for (const auto& event : trace.at("traceEvents")) {
    if (!event.contains("id")) continue;
    if (!is_in_slice(threads, event)) return "an arrow ends outside of slices: " + event.dump();
    add_flow(event, flows[event.at("id").get<std::int64_t>()]);
  }
  for (const auto& [id, flow] : flows) {
    if (flow.starts != 1 || flow.finishes != 1) return fmt::format("arrow {} without start or finish", id);
    if (flow.first_ns < flow.start_ns) return fmt::format("arrow {} runs backwards", id);
  }
  return "";
}

}  // namespace twinpod::report
