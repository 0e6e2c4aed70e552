#include <fcntl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "cli/command.hpp"
#include "core/guarded.hpp"
#include "core/signals.hpp"

namespace {

// A file that is opened where standard output was closed would get the answer.
void fill_standard_streams() {
  int file = 0;
  do file = open("/dev/null", O_RDONLY);
  while (file >= 0 && file <= STDERR_FILENO);
  if (file > STDERR_FILENO) close(file);
}

}  // namespace

int main(int argc, char** argv) {
  twinpod::take_signals();
  fill_standard_streams();
  twinpod::end_with_a_message_when_terminated();
  return twinpod::cli::run(std::vector<std::string>(argv + 1, argv + argc));
}
