// Whether verb, algorithm, ranks and shape go together; the same for schedules, phases and volumes.
#pragma once

#include "collective/schedule.hpp"

namespace twinpod::collective {

Result<void> check_request(Verb verb, Algorithm algorithm, int ranks, const Shape& shape);

}  // namespace twinpod::collective
