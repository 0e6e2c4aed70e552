#!/usr/bin/env bash
# Ctrl-C, SIGTERM and SIGHUP at random moments: a run that saves ends with its newest step saved, every other command dies by
# the signal, and no process and no file stays behind. tests/interrupt.py tells them, and looks.
#
#     tests/interrupt.sh [--program PATH]
#     tests/interrupt.sh --all [--seed N]      1,000 training runs and every command: half an hour on two cores
source "$(dirname "$0")/check.bash"
source tests/train_job.bash
runs=16
all=
seed=1
while (($#)); do
  case $1 in
    --all) all=yes runs=1000 ;;
    --seed) seed=$2 && shift ;;
    --program) program=$2 && shift ;;
    *) echo "usage: $0 [--program PATH] [--all] [--seed N]" >&2 && exit 2 ;;
  esac
  shift
done
if [[ $program == ./twinpod ]]; then
  twinpod version >/dev/null  # builds, if need be
  program=build/release/twinpod  # signals must reach the program itself, not the script around it
fi
program=$(realpath "$program")
examples=$PWD/examples

sweep() { python3 tests/interrupt.py sweep "$program" "$job" "$scratch/sweep" --runs "$runs" --seed "$seed" --at-once 4 | tee "$scratch/said" && tail -1 "$scratch/said" >&2 && return "${PIPESTATUS[0]}"; }
check "$runs runs of training, told at random moments" sweep

# ends [--FLAG VALUE]... -- ARGUMENT...: twinpod with the arguments
ends() {
  local -a flags=()
  while [[ $1 != -- ]]; do flags+=("$1") && shift; done
  shift
  folder=$(mktemp -d "$scratch/one-XXXXXX")
  python3 tests/interrupt.py one "${flags[@]}" "$folder" "$program" "$@"
}
long_plan=(plan deepseek-v3 --on h100-superpod --devices 8..16384 --space full)
tiny=$examples/tiny-gpt.yaml
served=(train "$job" --servers 2 --workers 2 --steps 1000000)
served_study=(study sync-async "$job" --servers 2 --workers 2 --steps 100000)
check "plan: the best so far" ends --after 4 --status 0 -- "${long_plan[@]}"
check "plan: SIGTERM ends it" ends --after 0.5 --signal TERM -- "${long_plan[@]}"
check "train: while it measures the machine" ends --after 1 -- train "$tiny" --ranks 2
check "train: the launcher alone is told" ends --after 0.7 --signal TERM --alone -- train "$job" --ranks 2 --steps 1000000
check "train: goes on behind Ctrl-Z and fg, later than the timeout" ends --after 1 --stopped 3 -- train "$job" --ranks 4 --steps 1000000 --timeout 1s
check "train --servers" ends --after 1.5 -- "${served[@]}"
check "bench comm" ends --after 0.7 -- bench comm --ranks 2
check "bench store: nothing of it stays" ends --after 0.7 --signal TERM -- bench store . --bytes 512MiB --rounds 100
if [[ $all ]]; then
  if command -v mpirun >/dev/null && [[ -x ${program%/*}/bench_openmpi_peer ]]; then
    for signal in INT TERM; do
      check "$signal: bench comm --against openmpi" ends --after 3 --signal $signal -- bench comm --ranks 2 --against openmpi --blocks 1000
    done
  fi
  for signal in INT TERM HUP; do
    for after in 0.02 0.2 1 3; do
      check "$signal after $after s: train --servers" ends --after $after --signal $signal -- "${served[@]}"
      check "$signal after $after s: bench comm --threads" ends --after $after --signal $signal -- bench comm --ranks 2 --threads --blocks 1000
      check "$signal after $after s: bench store" ends --after $after --signal $signal -- bench store . --bytes 512MiB --rounds 100
      check "$signal after $after s: bench machine" ends --after $after --signal $signal -- bench machine
      check "$signal after $after s: study" ends --after $after --signal $signal -- "${served_study[@]}"
      check "$signal after $after s: demo" ends --after $after --signal $signal -- demo
    done
  done
fi
finish_checks
