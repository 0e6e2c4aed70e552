#!/usr/bin/env bash
# This machine as a cluster file, and the commands that take it. What is measured is not judged: machines differ.
#
#     tests/machine.sh [--program PATH]
source "$(dirname "$0")/check.bash"
read_options "$@"
here=$scratch/here.yaml

gives() {  # gives KEY ARGUMENT...
  local key=$1
  shift
  twinpod "$@" --json >"$scratch/out" 2>"$scratch/err" || { cat "$scratch/err" && return 1; }
  grep -q "\"$key\"" "$scratch/out" || { echo "no $key in: $(head -c 500 "$scratch/out")" && return 1; }
}

refuses() {  # refuses TEXT ARGUMENT...
  local text=$1
  shift
  twinpod "$@" >"$scratch/out" 2>"$scratch/err" && return 1
  grep -qF -- "$text" "$scratch/err" || { echo "no \`$text\` in: $(cat "$scratch/err")" && return 1; }
}

for key in products memory communication disk errors; do
  [[ -e $here ]] || check "machine: measured and written" gives products bench machine --quick --ranks 2 \
    --disk "$scratch" -o "$here"
  check "machine: JSON has $key" grep -q "\"$key\"" "$scratch/out"
done
check "machine: leaves nothing on the disk" test -z "$(find "$scratch" -name 'twinpod-bench*')"
check "machine: estimate takes it" gives step_time_s estimate gpt2 --on "$here"
check "machine: plan takes it" gives feasible plan gpt2 --on "$here"
check "machine: simulate takes it" gives step_time_s simulate gpt2 --on "$here" --global-batch 4
check "machine: collective takes it" gives time_s collective all_reduce --on "$here" --bytes 8..1M
check "machine: schedules are simulated on it" \
  gives time_s collective all_reduce --algorithm ring --on "$here" --bytes 8..1M
bench=(bench comm --ranks 2 --verb all_reduce,send --bytes 4KiB --blocks 2)
check "machine: bench comm expects what was measured" gives verdict "${bench[@]}" --on "$here"
check "machine: and says from where" grep -q "measured in $here" "$scratch/out"
check "machine: without a file it looks at messages" gives verdict "${bench[@]}"
check "machine: and says so" grep -q "messages between two ranks" "$scratch/out"
check "machine: refused: a cluster that nobody measured" refuses "nothing was measured" "${bench[@]}" --on dgx-a100
check "machine: refused: a folder that is not there" refuses "/no/such" bench machine --quick --disk /no/such
finish_checks
