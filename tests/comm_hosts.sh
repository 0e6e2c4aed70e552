#!/usr/bin/env bash
# Two hosts with a link of 200 Mbit/s between them, on one machine (hosts.bash). All verbs are right, the link is filled, and
# the simulator predicts schedules from what messages between two ranks take.
#
#     tests/comm_hosts.sh [--program PATH]        needs root, iproute2 and Open MPI; says so where it cannot run
source "$(dirname "$0")/check.bash"
source tests/hosts.bash
read_options "$@"
link_bytes_per_s=25000000
near_link=0.10
near_prediction=0.15
make_hosts comm_hosts 200mbit

values() { sed -n "s/^ *\"$1\": \([0-9.e+-]*\),*$/\1/p" "$scratch/out"; }

exact() {  # exact RANKS_PER_HOST ARGUMENT...
  on_hosts "$1" bench comm --json --on "$scratch/two.yaml" --timeout 60s --blocks 1 --iterations 1 --warmup 0 \
    --bytes 252..300kB --factor 33 "${@:2}" || { cat "$scratch/err" && return 1; }
  local rows
  rows=$(grep -c '"verb":' "$scratch/out")
  ((rows > 0 && rows == $(grep -c '"wrong": 0,' "$scratch/out"))) || { echo "wrong results" && return 1; }
}

fills_link() {
  on_hosts 1 bench comm --json --on "$scratch/two.yaml" --no-check --blocks 3 --verb send --bytes 4MiB ||
    { cat "$scratch/err" && return 1; }
  values algbw_bytes_per_s | awk -v link=$link_bytes_per_s -v near=$near_link '
    { share = $1 / link; printf "%.3f of the link\n", share; if (share < 1 - near || share > 1) exit 1 }'
}

# The largest error of all rows. Another process at the wrong moment makes one row slow, so there are three tries.
predicted() {  # predicted RANKS_PER_HOST ARGUMENT...
  local try
  for try in 1 2 3; do predicted_once "$@" && return; done
  return 1
}

predicted_once() {
  on_hosts "$1" bench comm --json --no-check --blocks 3 --warmup 1 --on "$scratch/two.yaml" "${@:2}" ||
    { cat "$scratch/err" && return 1; }
  paste <(values time_s) <(values expected_s) | awk -v near=$near_prediction '
    NF == 2 { error = $2 / $1 - 1; if (error < 0) error = -error; if (error > worst) worst = error; rows += 1 }
    END { printf "%d rows, worst error %.3f\n", rows, worst; exit !(rows > 0 && worst <= near) }'
}

on_hosts 1 bench machine --quick --disk "$scratch" -o "$scratch/two.yaml"
check "hosts: bench machine finds two hosts" grep -q "on 2 hosts" "$scratch/two.yaml"
check "hosts: all verbs are right" exact 1
check "hosts: all verbs are right, two ranks a host" exact 2
check "hosts: schedules are right" exact 2 --algorithm ring --verb all_reduce,all_gather,reduce_scatter
check "hosts: a message fills the link" fills_link
check "hosts: rings are predicted" predicted 1 --algorithm ring --verb all_reduce,all_gather,reduce_scatter \
  --bytes 2MiB
check "hosts: trees are predicted" predicted 1 --algorithm tree --verb broadcast,reduce --bytes 2MiB
estimated() { "$program" estimate gpt2 --on "$scratch/two.yaml" --json | grep -q step_time_s; }
check "hosts: plans take the file" estimated
finish_checks
