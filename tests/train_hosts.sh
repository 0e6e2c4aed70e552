#!/usr/bin/env bash
# twinpod train on two hosts (hosts.bash): each way to divide a model over them has the losses of one process.
#
#     tests/train_hosts.sh [--program PATH]       needs root, iproute2 and Open MPI; says so where it cannot run
source "$(dirname "$0")/check.bash"
source tests/hosts.bash
source tests/train_job.bash
read_options "$@"
make_hosts train_hosts 1gbit

same_on_hosts() {  # same_on_hosts RANKS_PER_HOST FLAG...
  on_hosts "$1" train "$job" --json "${@:2}" </dev/null || { cat "$scratch/err" && return 1; }
  same_run "$scratch/alone.json" "$scratch/out"
}

# An error of the data is told once, without a recording.
refused_on_hosts() {
  on_hosts 1 train "$job" --json --set model.vocab=100 </dev/null && return 1
  grep -qE "step [0-9]+: .*is not in the vocabulary of 100" "$scratch/err" && ! compgen -G "twinpod-failure.json*" >/dev/null && return
  cat "$scratch/err"
  return 1
}

"$program" train "$job" --json >"$scratch/alone.json" </dev/null
check "train on hosts: one process" grep -q final_loss "$scratch/alone.json"
check "train on hosts: dp 2" same_on_hosts 1
check "train on hosts: dp 2, zero 3" same_on_hosts 1 --zero 3
check "train on hosts: tp 2" same_on_hosts 1 --tp 2
check "train on hosts: pp 2" same_on_hosts 1 --pp 2
check "train on hosts: dp 2 x pp 2, two ranks a host" same_on_hosts 2 --pp 2
check "train on hosts: wrong data is refused" refused_on_hosts
finish_checks
