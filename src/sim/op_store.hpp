// Room for the ops of a step, of all kinds of ranks one after the other.
//
//     std::shared_ptr<OpRun[]> ops = make_ops(2'300'000);              // each as its default
//
// They are tens of megabytes, written once: with pages of 4 KiB a quarter of a simulation would go into getting them.
// So they lie in one piece, which the kernel may fill with large pages.
#pragma once

#include <cstddef>
#include <memory>

#include "sim/step.hpp"

namespace twinpod::sim {

std::shared_ptr<OpRun[]> make_ops(std::size_t count);

}  // namespace twinpod::sim
