#!/usr/bin/env bash
# No silent hang: a rank of four is killed, stopped, leaves, skips an operation or calls another one, at many points. The run
# must end with status 1 within the timeout and a second, name the rank and the operation, and leave nothing behind.
#
#     tests/comm_faults.sh             a part of the points
#     tests/comm_faults.sh --all       50 points for each kind of fault
#     tests/comm_faults.sh --program PATH
source "$(dirname "$0")/check.bash"
points=(1 9 23)
if [[ ${1:-} == --all ]]; then
  mapfile -t points < <(seq 50)
  shift
fi
read_options "$@"
twinpod version >/dev/null  # builds, if need be
[[ $program == ./twinpod ]] && program=build/release/twinpod
timeout_ms=500
grace_ms=1000
start_ms=1500  # to start four processes on a machine that does other things, too

shm_files() { find /dev/shm -mindepth 1 2>/dev/null | sort; }
now_ms() { date +%s%3N; }

ends_well() {  # ends_well KIND RANK OPERATION [ARGUMENT...]
  local kind=$1 rank=$2 operation=$3 start status
  shift 3
  start=$(now_ms)
  timeout 60 "$program" bench comm --ranks 4 --verb all_reduce,broadcast,all_gather,reduce --bytes 64..256KiB --factor 64 \
    --iterations 2 --blocks 1 --timeout "${timeout_ms}ms" --recording "$scratch/failure.json" --fault "$kind:$rank@$operation" \
    "$@" >"$scratch/out" 2>"$scratch/err"
  status=$?
  local took=$(($(now_ms) - start))
  [[ $status == 1 ]] || { echo "status $status: $(cat "$scratch/err")" && return 1; }
  ((took <= timeout_ms + grace_ms + start_ms)) || { echo "took $took ms" && return 1; }
  grep -q "rank $rank " "$scratch/err" || { echo "another culprit: $(cat "$scratch/err")" && return 1; }
  # Of two operations that are alike, the first that is skipped shows when the second is over.
  [[ $kind == skip ]] && operation='[0-9]*'
  grep -q "operation $operation of world" "$scratch/err" || { echo "another operation: $(cat "$scratch/err")" && return 1; }
  "$program" doctor "$scratch/failure.json" | grep -q "^  > rank $rank:" || { echo "doctor names another" && return 1; }
}

sweep() {  # sweep KIND [ARGUMENT...]
  local kind=$1 operation
  shift
  for operation in "${points[@]}"; do ends_well "$kind" $((operation % 4)) "$operation" "$@" || return 1; done
}

before=$(shm_files)
for kind in kill stop exit skip verb; do
  check "faults: $kind, shared memory" sweep "$kind"
done
check "faults: size, shared memory" ends_well size 1 1
check "faults: kill, messages" sweep kill --algorithm tree --verb broadcast,reduce
check "faults: verb, messages" sweep verb --algorithm ring --verb all_reduce,all_gather
check "faults: kill, private memory" sweep kill --memory private
check "faults: nothing is left in /dev/shm" test "$(shm_files)" == "$before"
check "faults: no process is left" test -z "$(pgrep -f -- "--recording $scratch")"

# A launcher that is killed takes its ranks with it.
"$program" bench comm --ranks 3 --blocks 100000 --verb all_reduce --bytes 1MiB --recording "$scratch/failure.json" >/dev/null 2>&1 &
launcher=$!
sleep 0.5
kill -9 "$launcher"
wait "$launcher" 2>/dev/null
sleep 0.3
check "faults: no rank outlives its launcher" test -z "$(pgrep -f -- "--recording $scratch")"
finish_checks
