#!/usr/bin/env bash
# Checkpoints in the memory of peers on two hosts (hosts.bash): one is lost with all it had, and the run goes on.
#
#     tests/checkpoint_hosts.sh [--program PATH]     needs root, iproute2 and Open MPI; says so where it cannot run
#
# The hosts share this machine's /dev/shm, in which each has a folder of its own name and looks nowhere else.
source "$(dirname "$0")/check.bash"
source tests/hosts.bash
source tests/train_job.bash
read_options "$@"
make_hosts checkpoint_hosts 1gbit

first_step() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["first_step"])' "$scratch/out"; }
folder_of() { compgen -G "/dev/shm/twinpod-$UID/*-peer/$1"; }

# Killed when the peers have the fourth checkpoint; the store has the first alone.
lost_host() {  # lost_host HOST RANKS_PER_HOST FLAG...
  local host=$1 each=$2 store=$scratch/store-$1 lost
  shift 2
  local tiers="[{tier: peer}, {tier: shared, path: $store, every: 1000}]" run i
  on_hosts "$each" train "$job" --steps 1000000 --decay constant --checkpoint-every 2 --set "checkpoint.store=$tiers" \
    --json "$@" </dev/null 2>/dev/null &
  run=$!
  for ((i = 0; i < 600; ++i)); do
    compgen -G "/dev/shm/twinpod-$UID/*-peer/$a/rank-00000/checkpoint-*/manifest.json" | grep -qv 'checkpoint-00000[123]/' && break
    sleep 0.1
  done
  kill -9 $(ip netns pids "$a") $(ip netns pids "$b") 2>/dev/null
  wait "$run" 2>/dev/null
  lost=$(folder_of "$host") && [[ $(cat "$store/latest") == checkpoint-000001 ]] || { cat "$scratch/err" && return 1; }
  rm -r "$lost"
  on_hosts "$each" train --resume "$store" --steps 1 --json </dev/null || { cat "$scratch/err" && return 1; }
  [[ $(first_step) -ge 4 ]] || { cat "$scratch/out" && return 1; }
  local steps=$(($(first_step) + 3))
  on_hosts "$each" train --resume "$store" --steps "$steps" --json </dev/null || { cat "$scratch/err" && return 1; }
  cp "$scratch/out" "$scratch/resumed.json"
  "$program" train "$job" --decay constant --steps "$steps" --json >"$scratch/alone.json" 2>/dev/null </dev/null
  python3 - "$scratch/resumed.json" "$scratch/alone.json" <<'END'
import json, sys
resumed, alone = (json.load(open(path)) for path in sys.argv[1:])
assert len(resumed["losses"]) == 3, resumed["first_step"]
for x, y in zip(resumed["losses"], alone["losses"][-3:]):
    assert abs(x - y) <= 1e-5 * y, (x, y)
END
}
check "peers on hosts: the second is lost" lost_host "$b" 1
check "peers on hosts: and its memory is freed" eval '! folder_of "$a" && ! folder_of "$b"'
check "peers on hosts: the first is lost, two ranks a host, zero 3" lost_host "$a" 2 --zero 3
rm -rf /dev/shm/twinpod-"$UID"/*-peer/{"$a","$b"}  # of a check that failed
finish_checks
