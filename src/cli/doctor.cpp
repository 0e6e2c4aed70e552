// twinpod doctor: why a run failed, from what its flight recorder wrote.
#include "cli/command.hpp"
#include "comm/recording.hpp"
#include "report/comm_report.hpp"

namespace twinpod::cli {
namespace {

Result<std::string> doctor(const Arguments& arguments) {
  if (arguments.words.empty()) {
    return input_error("doctor takes the recording of a failed run", "twinpod doctor twinpod-failure.json");
  }
  std::vector<comm::Recording> recordings;
  for (const std::string& path : arguments.words) {
    Result<comm::Recording> recording = comm::read_recording(path);
    if (!recording) return tl::unexpected(recording.error());
    recordings.push_back(std::move(*recording));
  }
  const comm::Recording all = comm::merged(recordings);
  return arguments.has("json") ? report::doctor_json(all) : report::doctor_text(all);
}

}  // namespace

const Command kDoctor = {"doctor",
                         "FILE...",
                         "why a run failed: which rank, in which operation, from what its flight recorder wrote",
                         "twinpod doctor twinpod-failure.json\n"
                         "twinpod doctor twinpod-failure.json.*        # of a run over MPI, one for each rank\n",
                         {},
                         doctor};

}  // namespace twinpod::cli
