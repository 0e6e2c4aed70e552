#!/usr/bin/env bash
# twinpod train --servers: sync is the all-reduce trainer to the bit, every mode learns, and kill -9 of servers and workers
# loses no update.
#
#     tests/ps.sh [--program PATH]
source "$(dirname "$0")/check.bash"
source tests/train_job.bash
read_options "$@"
twinpod version >/dev/null  # builds, if need be
[[ $program == ./twinpod ]] && program=build/release/twinpod

shm_files() { find /dev/shm -mindepth 1 2>/dev/null | sort; }
before=$(shm_files)

trains() {  # trains NAME FLAG...
  local name=$1
  shift
  timeout 60 "$program" train "$job" "$@" --json >"$scratch/$name.json" 2>"$scratch/err" </dev/null ||
    { cat "$scratch/err" && return 1; }
}

holds() {  # holds NAME EXPRESSION: of the run's JSON, `run`
  python3 -c 'import json, sys
run = json.load(open(sys.argv[1]))
if not eval(sys.argv[2]):
    run["losses"] = run["losses"][:2] + run["losses"][-2:]
    sys.exit(f"not so: {sys.argv[2]}\n{json.dumps(run)}")' "$scratch/$1.json" "$2"
}

all_counted="run['updates_lost'] == 0 and run['updates_twice'] == 0 and run['updates_applied'] > 0"

same_bits() {  # same_bits WORKERS FLAG...: of parameters, because each loss is made of all of them
  local workers=$1
  shift
  trains reduced --ranks "$workers" --clip 0 --deterministic "$@" &&
    trains served --servers 2 --workers "$workers" --clip 0 --deterministic "$@" &&
    python3 -c 'import json, sys
reduced, served = (json.load(open(path)) for path in sys.argv[1:])
assert len(served["losses"]) == 6, served["losses"]
assert reduced["losses"] == served["losses"], (reduced["losses"], served["losses"])
assert reduced["final_loss"] == served["final_loss"]
assert reduced["evaluations"][-1]["loss"] == served["evaluations"][-1]["loss"]' \
      "$scratch/reduced.json" "$scratch/served.json" && holds served "$all_counted and run['staleness_max'] == 0"
}
check "sync, 2 workers: the bits of two ranks" same_bits 2 --dropout 0.1
check "sync, 4 workers: the bits of four ranks" same_bits 4 --set training.evaluate_every=2
check "sync, 3 workers: the bits of three ranks" same_bits 3 --set training.global_batch=6

learns() {  # learns EXPRESSION FLAG...
  local expression=$1
  shift
  trains run --steps 30 "$@" &&
    holds run "run['losses'][-1] < run['losses'][0] - 0.3 and run['final_loss'] < 5.2 and $all_counted and $expression"
}
check "async" learns "run['updates_applied'] % 60 == 0" --servers 2 --workers 2 --mode async
check "ssp:2, compressed" learns "run['staleness_max'] <= 2 and run['pushed_bytes'] < run['pulled_bytes'] / 2" \
  --servers 1 --workers 2 --mode ssp:2 --compress top-k:0.1
check "groups of two ranks" learns "run['peak_memory_bytes'] == run['predicted_peak_memory_bytes']" \
  --servers 1 --workers 2 --group 2
check "local steps" learns "run['pushed_bytes'] * 3 < run['losses'].__len__() * run['pulled_bytes']" \
  --servers 1 --workers 2 --local-steps 5
check "a backup worker, and a straggler" learns "run['updates_dropped'] > 0" --servers 1 --workers 3 --backup 1 \
  --set training.global_batch=6 --straggler 0:3 --pace 5ms

dies() {  # dies DEATHS EXPRESSION FLAG...
  local deaths=$1 expression=$2
  shift 2
  trains run --steps 60 --servers 3 --workers 2 --copies 2 --mode ssp:1 --pace 10ms "$@" &&
    holds run "run['deaths'] == $deaths and $all_counted and run['final_loss'] < 4.2 and $expression"
}
check "a server dies" dies 1 "run['failovers'] > 0" --fault kill:server:1@20
check "a worker dies" dies 1 "run['failovers'] == 0" --fault kill:worker:0@20
check "six die, any of them" dies 6 "run['staleness_max'] <= 1" --fault random:6

refuses() {  # refuses STATUS PATTERN FLAG...
  local wanted=$1 pattern=$2 status
  shift 2
  timeout 60 "$program" train "$job" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
  status=$?
  [[ $status == "$wanted" && ! -s $scratch/out ]] && grep -qE -- "$pattern" "$scratch/err" && return
  echo "status $status: $(cat "$scratch/out" "$scratch/err")"
  return 1
}
check "the only copy dies" refuses 1 "all servers that held them are gone" --servers 2 --workers 2 --steps 500 \
  --fault kill:server:1@10
check "refuses tp" refuses 2 "whole model" --servers 1 --workers 2 --tp 2
check "refuses zero" refuses 2 "whole model" --servers 1 --workers 2 --zero 1
check "refuses checkpoints" refuses 2 "--store does not go with --servers" --servers 1 --workers 2 --store "$scratch/store"
check "refuses ranks" refuses 2 "--workers N" --servers 1 --workers 2 --ranks 2
check "refuses more copies than servers" refuses 2 "each copy is on a server" --servers 1 --workers 2 --copies 2
check "refuses a fault of nobody" refuses 2 "0 to 1" --servers 2 --workers 2 --fault kill:server:2@3
check "refuses a fault without servers" refuses 2 "--servers" --fault kill:server:2@3

trains run --servers 1 --workers 2 --metrics "$scratch/metrics" --trace "$scratch/trace"
writes() {
  [[ $(wc -l <"$scratch/metrics") == 6 ]] && python3 -c 'import json, sys
[json.loads(line)["loss"] for line in open(sys.argv[1])]
names = [event["name"] for event in json.load(open(sys.argv[2]))["traceEvents"]]
assert names.count("passes") == 12 == names.count("push"), names' "$scratch/metrics" "$scratch/trace"
}
check "metrics and a trace" writes
check "nothing is left in /dev/shm" test "$(shm_files)" == "$before"
check "no process is left" test -z "$(pgrep -f -- "train $job")"
finish_checks
