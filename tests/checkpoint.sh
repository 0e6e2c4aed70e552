#!/usr/bin/env bash
# twinpod train saves and resumes: killed at random moments it ends as if nobody had, on other layouts too.
#
#     tests/checkpoint.sh [--program PATH]
source "$(dirname "$0")/check.bash"
source tests/train_job.bash
if [[ ${1:-} == --program ]]; then program=$2; fi

exactly() { twinpod train "$@" --deterministic --json 2>"$scratch/err" </dev/null; }
value() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])' "$1" "$2"; }
bits_of() { python3 -c 'import json, sys; run = json.load(open(sys.argv[2])); print([x.hex() for x in run["losses"][-int(sys.argv[1]):] + [run["final_loss"]]])' "$@"; }
bits() { bits_of 20 "$1"; }
wait_until() {  # wait_until CONDITION...: half a minute at most
  local i
  for ((i = 0; i < 600; ++i)); do
    "$@" && return
    sleep 0.05
  done
  return 1
}

# Ends the whole job as a power failure would, whatever its processes are busy with: at a random moment behind its start or
# behind its next checkpoint.
killed=$scratch/killed
latest() { cat "$killed/latest" 2>/dev/null; }
kill_one() {  # kill_one ROUND ARGUMENT...
  local round=$1 before job_process
  shift
  before=$(latest)
  setsid "$program" train "$@" --deterministic --json >"$scratch/out.json" 2>"$scratch/err" </dev/null &
  job_process=$!
  saved_more() { [[ $(latest) != "$before" ]]; }
  ((round % 3 == 0)) || wait_until saved_more
  sleep "0.$((RANDOM % 10))$((RANDOM % 10))"
  kill -9 -- "-$job_process" && kills=$((kills + 1))
  wait "$job_process"
}
kills=0
ten_kills() {
  local round
  kill_one 1 "$job" --ranks 2 --store "$killed" --checkpoint-every 7 --steps 1000000 --decay constant
  for round in {2..10}; do kill_one "$round" --resume "$killed"; done
} 2>/dev/null
same_bits() {
  exactly --resume "$killed" --steps 1 >"$scratch/out.json"
  local steps=$(($(value "$scratch/out.json" first_step) + 20))
  exactly --resume "$killed" --steps "$steps" >"$scratch/out.json"
  exactly "$job" --ranks 2 --decay constant --steps "$steps" >"$scratch/whole.json"
  echo "$kills kills, $(latest), $steps steps"
  [[ $kills == 10 && $(value "$scratch/out.json" first_step) == $((steps - 20)) && $(bits "$scratch/out.json") == "$(bits "$scratch/whole.json")" ]]
}
ten_kills
check "killed ten times, it goes on with the same bits" same_bits

short() { twinpod train "$@" --json 2>"$scratch/err" </dev/null; }
near() {  # near RESUMED.json WHOLE.json: the same losses from where it was resumed
  python3 - "$1" "$2" <<'END'
import json, sys
resumed, whole = (json.load(open(path)) for path in sys.argv[1:])
rest = whole["losses"][resumed["first_step"]:]
assert resumed["first_step"] > 0 and len(rest) == len(resumed["losses"]), resumed["first_step"]
for a, b in zip(rest, resumed["losses"]):
    assert abs(a - b) <= 1e-5 * a, (a, b)
assert resumed["peak_memory_bytes_by_rank"] == resumed["predicted_peak_memory_bytes_by_rank"]
END
}
short "$job" --ranks 2 --store "$scratch/a" --checkpoint-every 2 --steps 3 --decay constant >/dev/null
short "$job" --ranks 2 --decay constant >"$scratch/six.json"
other_layout() { short --resume "$scratch/a" --store "$scratch/$1" --steps 6 "${@:2}" >"$scratch/out.json" && near "$scratch/out.json" "$scratch/six.json"; }
check "tp 2 goes on where dp 2 was" other_layout b --tp 2 --dp 1
check "four ranks go on where two were, zero 3" other_layout c --dp 4 --zero 3
check "one rank goes on where two were" other_layout d --dp 1
check "without flags it goes on as it was, and saves there" bash -c "$(declare -f twinpod); program=$program; twinpod train --resume '$scratch/a' --steps 6 --json >'$scratch/out.json' 2>/dev/null && [[ \$(cat '$scratch/a/latest') == checkpoint-00000[2-9] ]]"
check "a finished run says so" bash -c "'$program' train --resume '$scratch/a' --steps 6 | grep -q 'nothing is left to train'"

# Weights alone, as other software may have made them: a new run begins with them, on any layout.
begins_with_weights() {
  twinpod checkpoint export "$scratch/a" -o "$scratch/weights.safetensors" >/dev/null &&
    twinpod checkpoint import "$scratch/weights.safetensors" -o "$scratch/imported" >/dev/null || return
  short "$job" --ranks 2 --resume "$scratch/imported" --store "$scratch/i2" --steps 2 >"$scratch/dp.json" &&
    short "$job" --ranks 2 --tp 2 --resume "$scratch/imported" --store "$scratch/i3" --steps 2 >"$scratch/tp.json" || return
  python3 - "$scratch"/{dp,tp,six}.json <<'END'
import json, sys
dp, tp, fresh = (json.load(open(path)) for path in sys.argv[1:])
assert dp["first_step"] == tp["first_step"] == 0, dp["first_step"]
assert dp["losses"][0] < 0.99 * fresh["losses"][0], (dp["losses"], fresh["losses"])
for a, b in zip(dp["losses"], tp["losses"]):
    assert abs(a - b) <= 1e-5 * a, (a, b)
END
}
check "imported weights are begun with, on any layout" begins_with_weights

if command -v mpirun >/dev/null; then
  over_mpi() {
    mpirun --allow-run-as-root --oversubscribe -n 2 "$program" train --resume "$scratch/a" --store "$scratch/e" --steps 8 --tp 2 --json \
      >"$scratch/out.json" 2>"$scratch/err" </dev/null && [[ $(value "$scratch/out.json" steps) == 2 && -e $scratch/e/latest ]]
  }
  check "over MPI" over_mpi
fi

refuses() {  # refuses STATUS PATTERN ARGUMENT...
  local wanted=$1 pattern=$2 status
  shift 2
  twinpod train "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
  status=$?
  [[ $status == "$wanted" && ! -s $scratch/out ]] && grep -qE -- "$pattern" "$scratch/err" && return
  echo "status $status: $(cat "$scratch/out" "$scratch/err")"
  return 1
}
check "another model is refused" refuses 2 "model.ffn is 128, here 256" "$job" --set model.ffn=256 --resume "$scratch/a" --ranks 2 --steps 9
check "a store of another run is not saved to" refuses 2 "holds checkpoints of a run already" "$job" --store "$scratch/a"
check "nothing to resume from" refuses 1 "there is no whole checkpoint" --resume "$scratch/none"
check "how often, but not where to" refuses 2 "no .store" "$job" --checkpoint-every 5
check "memory of a peer alone" refuses 1 "is lost with the job" "$job" --ranks 2 --set "checkpoint.store=[{tier: peer}]"
check "one rank has no peer" refuses 1 "one rank has no peer" "$job" --set "checkpoint.store=[{tier: peer}, {tier: shared, path: $scratch/no}]"
check "a folder that cannot be made" refuses 1 "/proc/none" "$job" --store /proc/none

asked_to_stop() {
  "$program" train "$job" --ranks 2 --steps 1000000 --store "$scratch/stop" --metrics "$scratch/lines" --json \
    >"$scratch/out.json" 2>"$scratch/err" </dev/null &
  local job_process=$!
  wait_until test -s "$scratch/lines"
  kill -"$1" "$job_process"
  wait "$job_process" || return 1
  [[ $(value "$scratch/out.json" stopped) == True ]] &&
    [[ $(value "$scratch/out.json" checkpoint_step) == "$(value "$scratch/out.json" steps)" ]]
}
check "SIGTERM: saved, and ended in peace" asked_to_stop TERM

# The store goes away while it trains.
lose_store() {  # lose_store POLICY: the exit status
  local store=$scratch/lost-$1
  "$program" train "$job" --ranks 2 --steps 1000000 --store "$store" --checkpoint-every 5 --set "checkpoint.on_error=$1" \
    --metrics "$scratch/lines" --json >"$scratch/out.json" 2>"$scratch/err" </dev/null &
  local job_process=$!
  wait_until test -e "$store/latest"
  mv "$store" "$store.moved" && touch "$store"
  wait_until grep -q "checkpoint of step" "$scratch/err"
  kill "$job_process" 2>/dev/null
  wait "$job_process"
}
goes_on() {
  lose_store continue
  [[ $? == 1 ]] && grep -q "could not be saved to $scratch/lost-continue" "$scratch/err" && [[ $(value "$scratch/out.json" checkpoints_failed) -ge 1 && $(value "$scratch/out.json" checkpoints) -ge 1 ]] &&
    mv "$scratch/lost-continue.moved" "$scratch/found" && short --resume "$scratch/found" --steps 1 >"$scratch/out.json"
}
check "a store that is lost: it is said, training goes on and ends with 1, the older checkpoint is there" goes_on
stops() {
  lose_store stop
  [[ $? == 1 ]] && grep -q "checkpoint of step .*lost-stop" "$scratch/err"
}
check "... or training stops, as the job says" stops

# Each rank's shard has a copy with another rank. What one rank's host had is lost, and the store has the run's first checkpoint alone.
of_peers() { compgen -G "/dev/shm/twinpod-$UID/*-peer/*/rank-00000/checkpoint-*/manifest.json" | xargs grep -ls "$scratch/peers-$1" | sed 's,/rank-00000/.*,,' | sort -u; }
from_peers() {  # from_peers RANKS LOST FLAG...
  local ranks=$1 lost=$2 store=$scratch/peers-$1-$2 folder job_process
  shift 2
  local tiers="[{tier: peer, keep: 1}, {tier: shared, path: $store, every: 1000000}]"
  setsid "$program" train "$job" --ranks "$ranks" --steps 1000000 --decay constant --deterministic --checkpoint-every 100 --set "checkpoint.store=$tiers" "$@" \
    >/dev/null 2>"$scratch/err" </dev/null &
  job_process=$!
  # Found once: a manifest is there for a moment only.
  newer() { [[ -n $folder ]] || folder=$(of_peers "$ranks-$lost") && compgen -G "$folder/rank-00000/checkpoint-*/manifest.json" | grep -qv 'checkpoint-00000[123]/'; }
  wait_until newer
  kill -9 -- "-$job_process"
  wait "$job_process" 2>/dev/null
  [[ $(cat "$store/latest") == checkpoint-000001 && -n $folder ]] || { cat "$scratch/err" && return 1; }
  rm -r "$folder/rank-0000$lost"
  exactly --resume "$store" --steps 1 >"$scratch/out.json" || { cat "$scratch/err" && return 1; }
  local first
  first=$(value "$scratch/out.json" first_step)
  exactly --resume "$store" --steps $((first + 5)) >"$scratch/out.json" || { cat "$scratch/err" && return 1; }
  exactly "$job" --ranks "$ranks" --decay constant --steps $((first + 5)) "$@" >"$scratch/whole.json"
  echo "$first steps, resumed behind $(value "$scratch/out.json" first_step)"
  [[ $first -ge 4 && $(value "$scratch/out.json" first_step) == "$first" && ! -e $folder ]] &&
    [[ $(bits_of 5 "$scratch/out.json") == "$(bits_of 5 "$scratch/whole.json")" && $(cat "$store/latest") != checkpoint-000001 ]]
}
check "peers: what rank 1 had is lost" from_peers 2 1 --dp 2 --zero 1
check "peers: what rank 0 had is lost, four ranks" from_peers 4 0 --tp 2 --dp 2
of_peers "" | xargs -r rm -r  # of a check that failed

# Every tier of a list gets what it should.
cat >>"$job" <<END
checkpoint: {every: 2, store: [{tier: local, path: $scratch/fast, keep: 1}, {tier: shared, path: $scratch/slow, every: 2, keep: 3}]}
END
on_tiers() {
  short "$job" --ranks 2 --steps 8 >"$scratch/out.json" && [[ -e $scratch/fast/latest && -e $scratch/slow/latest ]] &&
    rm -r "$scratch/fast" && short --resume "$scratch/slow" --steps 9 >"$scratch/out.json" && [[ -e $scratch/fast/latest ]]
}
in_memory() {
  local memory=$scratch/memory tiers="[{tier: memory, path: $scratch/memory}, {tier: shared, path: $scratch/disk, every: 1000}]"
  setsid "$program" train "$job" --ranks 2 --steps 1000000 --set "checkpoint.store=$tiers" >/dev/null 2>"$scratch/err" </dev/null &
  local job_process=$!
  wait_until test -e "$memory/latest"
  kill -9 -- "-$job_process"
  wait "$job_process" 2>/dev/null
  mkdir -p "$scratch/disk" && short --resume "$memory" --steps 100 >"$scratch/out.json" || { cat "$scratch/err" && return 1; }
  [[ $(value "$scratch/out.json" first_step) -ge 2 && -e $scratch/disk/latest && ! -e $memory ]]
}
check "memory outlives the ranks, and is emptied into the slower tier at the end" in_memory
check "tiers: what the fast one lost comes from the slow one" on_tiers
finish_checks
