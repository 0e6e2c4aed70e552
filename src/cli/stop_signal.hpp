// SIGINT and SIGTERM as a wish: whoever trains ends behind the step, saves, and says so. A second one ends at once.
//
//     const StopSignal stop;
//     ... comm::run_processes(...) ...      // ranks started from here on see it, too, whichever process it was sent to
//     stop.asked()                          // SIGTERM; 0: nobody asked
#pragma once

namespace twinpod::cli {

// One at a time. The old behaviour is back when it goes.
class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  int asked() const;
};

}  // namespace twinpod::cli
