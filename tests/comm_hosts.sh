#!/usr/bin/env bash
# Two hosts with a link of 200 Mbit/s between them, on one machine: network namespaces, joined by a virtual cable whose
# rate `tc tbf` limits; MPI over TCP. All verbs are right, the link is filled, and the simulator predicts schedules from
# what messages between two ranks take.
#
#     tests/comm_hosts.sh [--program PATH]        needs root, iproute2 and Open MPI; says so where it cannot run
source "$(dirname "$0")/check.bash"
read_options "$@"
link_bytes_per_s=25000000
near_link=0.10
near_prediction=0.15
a=tp$$a
b=tp$$b

remove_hosts() { ip netns del "$a" 2>/dev/null; ip netns del "$b" 2>/dev/null; }

make_hosts() {
  ip netns add "$a" && ip netns add "$b" &&
    ip link add tpa netns "$a" mtu 9000 type veth peer name tpb netns "$b" mtu 9000 &&
    ip -n "$a" addr add 10.77.0.1/24 dev tpa && ip -n "$b" addr add 10.77.0.2/24 dev tpb &&
    ip -n "$a" link set lo up && ip -n "$b" link set lo up &&
    ip -n "$a" link set tpa up && ip -n "$b" link set tpb up &&
    tc -n "$a" qdisc add dev tpa root tbf rate 200mbit burst 20kb latency 50ms &&
    tc -n "$b" qdisc add dev tpb root tbf rate 200mbit burst 20kb latency 50ms
}

skip() {
  remove_hosts
  echo "ok comm_hosts: skipped, $1"
  exit 0
}

command -v ip tc mpirun unshare >/dev/null || skip "ip, tc, mpirun or unshare is missing"
trap 'remove_hosts; rm -rf "$scratch"' EXIT
make_hosts 2>"$scratch/hosts" || skip "network namespaces cannot be made here: $(head -n 1 "$scratch/hosts")"

twinpod version >/dev/null  # builds, if need be
[[ $program == ./twinpod ]] && program=build/release/twinpod
program=$(readlink -f "$program")

# mpirun starts its daemon on the other host with this, in the place of ssh. Each host has a name of its own.
cat >"$scratch/agent" <<'AGENT'
#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; $*"
AGENT
chmod +x "$scratch/agent"

on_hosts() {  # on_hosts RANKS_PER_HOST ARGUMENT...
  local each=$1
  shift
  timeout 120 ip netns exec "$a" unshare --uts sh -c 'hostname "$0"; exec mpirun "$@"' "$a" --allow-run-as-root \
    --oversubscribe --mca plm_rsh_agent "$scratch/agent" --mca oob_tcp_if_include 10.77.0.0/24 --mca btl tcp,self \
    --mca btl_tcp_if_include 10.77.0.0/24 --mca mpi_yield_when_idle 1 \
    --host "$a:$each,$b:$each" -n $((2 * each)) "$program" "$@" >"$scratch/out" 2>"$scratch/err"
}

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
