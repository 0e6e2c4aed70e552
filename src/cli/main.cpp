#include <string>
#include <vector>

#include "cli/command.hpp"

int main(int argc, char** argv) { return twinpod::cli::run(std::vector<std::string>(argv + 1, argv + argc)); }
