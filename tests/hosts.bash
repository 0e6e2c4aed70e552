# Two hosts on one machine, for tests of what goes over a network: network namespaces, joined by a virtual cable whose rate
# `tc tbf` limits; MPI over TCP. Sourced behind check.bash. Needs root, iproute2 and Open MPI; where they are not, the test
# is skipped, and says why.
#
#     make_hosts train_hosts 200mbit
#     on_hosts 1 train job.yaml --tp 2 --json      # one rank on each; $scratch/out and $scratch/err
a=tp$$a
b=tp$$b

remove_hosts() { ip netns del "$a" 2>/dev/null; ip netns del "$b" 2>/dev/null; }

join_hosts() {  # join_hosts RATE
  ip netns add "$a" && ip netns add "$b" &&
    ip link add tpa netns "$a" mtu 9000 type veth peer name tpb netns "$b" mtu 9000 &&
    ip -n "$a" addr add 10.77.0.1/24 dev tpa && ip -n "$b" addr add 10.77.0.2/24 dev tpb &&
    ip -n "$a" link set lo up && ip -n "$b" link set lo up &&
    ip -n "$a" link set tpa up && ip -n "$b" link set tpb up &&
    tc -n "$a" qdisc add dev tpa root tbf rate "$1" burst 20kb latency 50ms &&
    tc -n "$b" qdisc add dev tpb root tbf rate "$1" burst 20kb latency 50ms
}

skip_hosts() {  # skip_hosts TEST WHY
  remove_hosts
  skip "$1" "$2"
  exit 0
}

make_hosts() {  # make_hosts TEST RATE
  command -v ip tc mpirun unshare >/dev/null || skip_hosts "$1" "ip, tc, mpirun or unshare is missing"
  trap 'remove_hosts; rm -rf "$scratch"' EXIT
  join_hosts "$2" 2>"$scratch/hosts" ||
    skip_hosts "$1" "network namespaces cannot be made here: $(head -n 1 "$scratch/hosts")"
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
}

on_hosts() {  # on_hosts RANKS_PER_HOST ARGUMENT...
  local each=$1
  shift
  timeout 120 ip netns exec "$a" unshare --uts sh -c 'hostname "$0"; exec mpirun "$@"' "$a" --allow-run-as-root \
    --oversubscribe --mca plm_rsh_agent "$scratch/agent" --mca oob_tcp_if_include 10.77.0.0/24 --mca btl tcp,self \
    --mca btl_tcp_if_include 10.77.0.0/24 --mca mpi_yield_when_idle 1 \
    --host "$a:$each,$b:$each" -n $((2 * each)) "$program" "$@" >"$scratch/out" 2>"$scratch/err"
}
