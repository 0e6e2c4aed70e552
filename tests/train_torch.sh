#!/usr/bin/env bash
# Gradients beside PyTorch's, on the same weights and the same batch: within 1e-5.
#
#     TWINPOD_TORCH=FOLDER tests/train_torch.sh
#
# Optional: FOLDER is a virtual environment with PyTorch, made when it is not there (up to 5 GB). Without TWINPOD_TORCH,
# or where PyTorch cannot be installed, nothing is checked.
source "$(dirname "$0")/check.bash"
source bench/train/torch_env.bash

skip_all() { skip "gradients beside PyTorch" "$1" && exit 0; }

if [[ -z ${TWINPOD_TORCH:-} ]]; then skip_all "TWINPOD_TORCH is not set"; fi
install_torch "$TWINPOD_TORCH" >"$scratch/install" 2>&1 || skip_all "PyTorch cannot be installed"

# Whichever program with the trainer's tests is there.
write_gradients() {
  local tests
  for tests in "${TWINPOD_TESTS:-}" build/release/twinpod_tests_high build/release/twinpod_tests; do
    if [[ -x $tests ]]; then break; fi
  done
  TEST_TMPDIR=$scratch/ "$tests" --gtest_filter='Dump.*' >"$scratch/out" 2>&1 && [[ -d $scratch/train_dump ]] && return
  cat "$scratch/out"
  return 1
}

check "weights, batch and gradients are written" write_gradients
if ((failed_checks)); then finish_checks; fi
check "gradients are those of PyTorch" "$TWINPOD_TORCH/bin/python" bench/train/torch_gradients.py "$scratch/train_dump"
finish_checks
