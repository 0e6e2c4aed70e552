#include "store/lock_owner.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "core/quote.hpp"

namespace twinpod::store {
namespace {

using Json = nlohmann::ordered_json;

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Numbers of processes are used again; with the moment of its start there is one. 0: there is no such process, or it
// has ended and waits for its parent.
std::int64_t start_of(std::int64_t process) {
  const std::string line = first_line(fmt::format("/proc/{}/stat", process));
  const std::size_t name_end = line.rfind(')');  // a name may hold blanks
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(line.substr(name_end + 1));
  constexpr int kFieldsBetween = 18;
  std::string state;
  std::string field;
  rest >> state;
  for (int i = 0; i < kFieldsBetween; ++i) rest >> field;
  std::int64_t started = 0;
  rest >> started;
  return state == "Z" || state == "X" ? 0 : started;
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return std::string(text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts));
}

std::string drawn_token() {
  std::random_device source;
  return fmt::format("{:08x}{:08x}{:08x}{:08x}", source(), source(), source(), source());
}

std::string process_space() {
  std::array<char, 64> name{};
  const ssize_t length = ::readlink("/proc/self/ns/pid", name.data(), name.size());
  return length > 0 ? std::string(name.data(), static_cast<std::size_t>(length)) : "";
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

}  // namespace

Owner this_process() {
  const std::int64_t process = ::getpid();
  return {.host = host_name(),
          .boot = first_line("/proc/sys/kernel/random/boot_id"),
          .processes = process_space(),
          .process = process,
          .started = start_of(process),
          .since = utc_now(),
          .token = drawn_token()};
}

std::string to_text(const Owner& owner) {
  const Json json = {{"host", owner.host},       {"process", owner.process}, {"since", owner.since},
                     {"started", owner.started}, {"boot", owner.boot},       {"processes", owner.processes},
                     {"token", owner.token},     {"renewed", owner.renewed}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Owner parse_owner(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  Owner owner;
  if (!json.is_object()) return owner;
  const auto read = [&](const char* key, std::string& to) {
    if (json.contains(key) && json[key].is_string()) to = json[key].get<std::string>();
  };
  const auto count = [&](const char* key, std::int64_t& to) {
    if (json.contains(key) && json[key].is_number_integer()) to = json[key].get<std::int64_t>();
  };
  read("host", owner.host);
  read("boot", owner.boot);
  read("processes", owner.processes);
  read("since", owner.since);
  read("token", owner.token);
  count("process", owner.process);
  count("started", owner.started);
  count("renewed", owner.renewed);
  return owner;
}

std::string to_string(const Owner& owner) {
  if (owner.host.empty()) return "a process that does not say which";
  // Whoever may write there may have written anything, and it goes to a terminal.
  return fmt::format("process {} on host {} since {}", owner.process, shortened(owner.host, 64),
                     shortened(owner.since, 64));
}

bool is_on_this_host(const Owner& owner) {
  const Owner here = this_process();
  return !owner.boot.empty() && owner.boot == here.boot && owner.processes == here.processes;
}

bool is_alive(const Owner& owner) { return owner.started > 0 && start_of(owner.process) == owner.started; }

}  // namespace twinpod::store
