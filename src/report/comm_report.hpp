// What `bench comm` prints: a table with the columns of nccl-tests, or JSON; and what `doctor` prints.
#pragma once

#include <string>
#include <vector>

#include "comm/measure.hpp"
#include "comm/recording.hpp"

namespace twinpod::report {

struct CommBench {
  int ranks = 1;
  std::string transport;  // threads, processes or mpi
  bool shared = true;     // the memory of the buffers
  std::vector<comm::Measurement> rows = {};
  std::string expected_basis = {};      // where expected_s comes from; empty: nowhere
  std::vector<std::string> peers = {};  // names of the peers that were measured
};

std::string comm_bench_text(const CommBench& bench);
std::string comm_bench_json(const CommBench& bench);

std::string doctor_text(const comm::Recording& recording);
std::string doctor_json(const comm::Recording& recording);

}  // namespace twinpod::report
