#!/usr/bin/env bash
# twinpod train --servers: sync is the all-reduce trainer to the bit, every mode learns, and kill -9 of servers and workers
# loses no update; also over TCP, with two launchers.
#
#     tests/ps.sh [--program PATH]
source "$(dirname "$0")/check.bash"
source tests/train_job.bash
read_options "$@"
twinpod version >/dev/null  # builds, if need be
[[ $program == ./twinpod ]] && program=build/release/twinpod

# Not those of other scripts that run beside: checkpoints in memory, and MPI.
shm_files() { find /dev/shm -mindepth 1 -maxdepth 1 ! -name "twinpod-*" ! -name "vader_segment*" ! -name "*openmpi*" 2>/dev/null | sort; }
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
if not eval("(" + sys.argv[2] + ")"):
    run["losses"] = run["losses"][:2] + run["losses"][-2:]
    sys.exit(f"not so: {sys.argv[2]}\n{json.dumps(run)}")' "$scratch/$1.json" "$2"
}

all_counted="run['updates_lost'] == 0 and run['updates_twice'] == 0 and run['updates_applied'] > 0"

same_bits() {  # same_bits WORKERS FLAG...: of parameters, because each loss is made of all of them
  local workers=$1
  shift
  trains reduced --ranks "$workers" --deterministic --metrics "$scratch/norms" "$@" &&
    trains served --servers 2 --workers "$workers" --deterministic "$@" &&
    python3 -c 'import json, sys
reduced, served = (json.load(open(path)) for path in sys.argv[1:])
assert len(served["losses"]) == 6, served["losses"]
assert reduced["losses"] == served["losses"], (reduced["losses"], served["losses"])
assert reduced["final_loss"] == served["final_loss"]
assert reduced["evaluations"][-1]["loss"] == served["evaluations"][-1]["loss"]' \
      "$scratch/reduced.json" "$scratch/served.json" && holds served "$all_counted and run['staleness_max'] == 0"
}
check "sync, 3 workers: the bits of three ranks" same_bits 3 --set training.global_batch=6 --dropout 0.1 \
  --clip 0.2
clipped() {  # clipped NORM: each step of the last run of ranks was
  python3 -c 'import json, sys
norms = [json.loads(line)["gradient_norm"] for line in open(sys.argv[1])]
assert len(norms) == 6 and min(norms) > float(sys.argv[2]), norms' "$scratch/norms" "$1"
}
check "norms were cut in each step" clipped 0.2
check "sync, 4 workers: the bits of four ranks" same_bits 4 --set training.evaluate_every=2
check "norms of the default clip were cut, too" clipped 1

# Two launchers, as on two hosts.
port=$((20000 + $$ % 400 * 100))
start_host() {  # start_host HOST FLAG...: in the background
  local host=$1
  shift
  timeout 60 "$program" train "$job" --hosts 127.0.0.1,127.0.0.1 --host "$host" --port "$port" --key "$scratch/job.key" --json "$@" \
    >"$scratch/host$host.json" 2>"$scratch/host$host.err" </dev/null &
  last_host=$!
}

same_bits_on_hosts() {  # as the run of four ranks before
  local flags=(--servers 2 --workers 4 --deterministic --set training.evaluate_every=2)
  start_host 1 "${flags[@]}"
  local other=$last_host
  start_host 0 "${flags[@]}"
  wait "$last_host" && wait "$other" || { cat "$scratch"/host?.err && return 1; }
  python3 -c 'import json, sys
reduced, one, other = (json.load(open(path)) for path in sys.argv[1:])
assert one["final_loss"] == reduced["final_loss"], (one["final_loss"], reduced["final_loss"])
assert one["updates_lost"] == other["updates_lost"] == 0 < one["updates_applied"]' \
    "$scratch/reduced.json" "$scratch/host0.json" "$scratch/host1.json"
}
check "over TCP, two hosts: the bits of four ranks" same_bits_on_hosts

a_host_dies() {
  local flags=(--servers 2 --workers 2 --copies 2 --mode ssp:1 --pace 10ms --steps 60 --timeout 6s)
  port=$((port + 50))
  : >"$scratch/metrics"
  start_host 1 "${flags[@]}"
  local other=$last_host
  start_host 0 "${flags[@]}" --metrics "$scratch/metrics"
  while kill -0 "$last_host" 2>/dev/null && (($(wc -l <"$scratch/metrics") < 20)); do sleep 0.05; done
  pkill -9 -P "$other"  # the launcher of the other host, whose parent is `timeout`; its processes go with it
  { wait "$other"; } 2>/dev/null
  wait "$last_host" || { cat "$scratch/host0.err" && return 1; }
  python3 -c 'import json, sys
run = json.load(open(sys.argv[1]))
assert run["steps"] == 60 and run["deaths"] == 2 and run["failovers"] > 0 and run["updates_lost"] == 0, run
assert run["final_loss"] < 4.2, run["final_loss"]' "$scratch/host0.json"
}
check "a host dies, the other goes on" a_host_dies

learns() {  # learns EXPRESSION FLAG...
  local expression=$1
  shift
  trains run --steps 30 "$@" &&
    holds run "run['losses'][-1] < run['losses'][0] - 0.3 and run['final_loss'] < 5.2 and $all_counted and $expression"
}
check "async" learns "run['updates_applied'] % 60 == 0" --servers 2 --workers 2 --mode async \
  --metrics "$scratch/metrics" --trace "$scratch/trace"
writes() {
  [[ $(wc -l <"$scratch/metrics") == 30 ]] && python3 -c 'import json, sys
[json.loads(line)["loss"] for line in open(sys.argv[1])]
# Of the workers: a push that is sent again, on a slow machine, is one more of a server.
names = [event["name"] for event in json.load(open(sys.argv[2]))["traceEvents"] if event.get("cat") == "worker"]
assert names.count("passes") == 60 == names.count("push"), (names.count("passes"), names.count("push"))' "$scratch/metrics" "$scratch/trace"
}
check "metrics and a trace" writes
# Of a chosen step each server has its own shards' pushes, all of them; a death costs none that a copy has.
traces() {  # traces COPIES STEPS FLAG...: how often each push is in the trace, and of which steps it is
  local copies=$1 steps=$2
  shift 2
  trains traced --servers 2 --workers 2 --copies "$copies" --trace "$scratch/trace" "$@" && python3 -c 'import json, sys
run, trace = (json.load(open(path)) for path in sys.argv[1:3])
copies, steps = int(sys.argv[3]), int(sys.argv[4])
slices = [event for event in trace["traceEvents"] if event.get("cat") == "server"]
updates = {}
for one in slices:
    if one["name"] == "update":
        updates[one["tid"]] = updates.get(one["tid"], 0) + one["args"]["updates"]
assert sorted(updates) == [1, 2], updates
assert sum(updates.values()) * run["steps"] == copies * steps * run["updates_applied"], (updates, run["updates_applied"])
if copies == 2:
    assert updates[1] == updates[2], updates
assert steps > 1 or {one["args"]["step"] for one in slices} == {3}
assert all(one["dur"] >= 0 and one["args"]["waited_s"] >= 0 for one in slices)
assert sum(one["args"].get("answers", 0) for one in slices) > 0
queues = {event["name"]: event["args"]["messages"] for event in trace["traceEvents"] if event["ph"] == "C"}
assert queues == {f"server {i}: messages waiting": 0 for i in (0, 1)}, queues  # behind the last message
passes = [event for event in trace["traceEvents"] if event["name"] == "passes"]
assert len(passes) == 2 * steps, passes' "$scratch/traced.json" "$scratch/trace" "$copies" "$steps"
}
check "a trace of one step has the updates of all servers: sync" traces 1 1 --trace-step 3
check "a trace of one step has the updates of all servers: ssp, two copies" traces 2 1 --mode ssp:1 --trace-step 3
check "a trace of all steps has all updates" traces 1 6 --mode async
traces_a_death() {
  trains traced --servers 2 --workers 2 --copies 2 --mode ssp:1 --steps 60 --pace 10ms --fault kill:server:1@10 \
    --trace "$scratch/trace" && python3 -c 'import json, sys
run, trace = (json.load(open(path)) for path in sys.argv[1:])
updates = {1: [0] * 60, 2: [0] * 60}
for one in trace["traceEvents"]:
    if one["name"] == "update":
        updates[one["tid"]][one["args"]["step"] - 1] += one["args"]["updates"]
assert run["deaths"] == 1 and 60 * updates[1][0] == sum(updates[1]) == run["updates_applied"], updates
assert updates[2][:8] == updates[1][:8] and updates[2][50:] == updates[1][50:], updates' "$scratch/traced.json" "$scratch/trace"
}
check "a server that died has in the trace what it did, and who came for it the rest" traces_a_death
check "ssp:2, compressed, groups of two ranks" learns "run['staleness_max'] <= 2 and
  run['pushed_bytes'] < run['pulled_bytes'] / 2 and run['peak_memory_bytes'] == run['predicted_peak_memory_bytes']" \
  --servers 1 --workers 2 --mode ssp:2 --compress top-k:0.1 --group 2
# Six clocks of five steps: twelve pushes of all, to sixteen pulls with those before and behind.
check "local steps" learns "run['pushed_bytes'] * 4 == run['pulled_bytes'] * 3 and run['updates_applied'] % 12 == 0" \
  --servers 1 --workers 2 --local-steps 5
check "a backup worker, and a straggler" learns "run['updates_dropped'] > 0" --servers 1 --workers 3 --backup 1 \
  --set training.global_batch=6 --straggler 0:3 --pace 5ms

dies() {  # dies DEATHS EXPRESSION FLAG...
  local deaths=$1 expression=$2
  shift 2
  trains run --steps 60 --servers 3 --workers 2 --copies 2 --pace 10ms "$@" &&
    holds run "run['deaths'] == $deaths and $all_counted and run['final_loss'] < 4.2 and $expression"
}
check "a server and a worker die" dies 2 "run['failovers'] > 0 and run['staleness_max'] <= 1" --mode ssp:1 \
  --fault kill:server:1@20,kill:worker:0@35
check "six die, any of them, while norms are made" dies 6 "run['staleness_max'] == 0" --mode sync --fault random:6

# Child of the run, the last that it started; the run is slow enough to be met.
child_of_run() {
  local all
  mapfile -t all < <(pgrep -P "$1")
  echo "${all[-1]}"
}
stops() {  # stops FLAG...: a process that is stopped is as good as dead
  "$program" train "$job" --servers 3 --workers 2 --copies 2 --steps 150 --pace 50ms --timeout 6s --json "$@" \
    --metrics "$scratch/stopped.jsonl" >"$scratch/run.json" 2>"$scratch/err" </dev/null &
  local run=$!
  until [[ -s $scratch/stopped.jsonl ]] || ! kill -0 $run; do sleep 0.1; done
  kill -STOP "$(child_of_run $run)"
  wait $run || { cat "$scratch/err" && return 1; }
  holds run "run['deaths'] >= 1 and $all_counted and run['steps'] == 150"
}
check "a worker is stopped" stops --mode async
killed_early() {  # before servers and workers are there
  "$program" train "$job" --servers 2 --workers 2 --copies 2 --steps 5 --json >"$scratch/run.json" 2>"$scratch/err" </dev/null &
  local run=$!
  until pgrep -P $run >/dev/null; do sleep 0.01; done
  kill -KILL "$(child_of_run $run)"
  wait $run && [[ ! -e twinpod-failure.json ]] && holds run "run['steps'] == 5"
}
check "one dies while the machine is measured" killed_early

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
check "refuses more hosts than workers" refuses 2 "one on each host" --servers 1 --workers 1 --hosts 10.0.0.1,10.0.0.2
check "refuses hosts without a key" refuses 2 "--key job.key" --servers 1 --workers 2 --hosts 10.0.0.1,10.0.0.2
check "refuses a key without hosts" refuses 2 "--key without --hosts" --servers 1 --workers 2 --key job.key
check "refuses a host without servers" refuses 2 "--servers" --host 1
check "refuses a fault without servers" refuses 2 "--servers" --fault kill:server:2@3

# The commands at the head of the example, as they stand there.
shows() {
  local -a words
  local line commands=0
  while read -r line; do
    read -ra words <<<"${line/served.json/$scratch/served.json}"
    timeout 60 "$program" "${words[@]}" --json >"$scratch/shown.json" 2>"$scratch/err" </dev/null || { cat "$scratch/err" && return 1; }
    holds shown "run['steps'] == 200 and run['final_loss'] < 3 and run['time_to_target_s'] and $all_counted" || return 1
    commands=$((commands + 1))
  done < <(sed -n 's|^# *\./twinpod \(train .*\)|\1|p' examples/served-gpt.yaml)
  ((commands == 3)) && holds shown "run['deaths'] == 1" && grep -q '"update"' "$scratch/served.json"
}
check "the example" shows

measures() {  # a rate on a busy machine says little: that it is measured, and all of it
  timeout 60 "$program" bench ps --bytes 2MiB --rounds 1 --json >"$scratch/bench.json" </dev/null &&
    timeout 60 "$program" bench ps --bytes 256KiB --rounds 1 >"$scratch/bench.txt" </dev/null && python3 -c 'import json, sys
bench = json.load(open(sys.argv[1]))
rows = [(row["server"], row["bytes"], row["shards"]) for row in bench["rows"]]
assert rows == [(s, 2 << 20, n) for s in ("keeps", "adds", "sgd", "adamw") for n in (1, 2)], rows
for row in bench["rows"]:
    assert abs(row["exchange_bytes_per_s"] * row["exchange_s"] / (4 << 20) - 1) < 1e-6, row
    assert abs(row["registered_ratio"] * row["registered_bytes_per_s"] / row["exchange_bytes_per_s"] - 1) < 1e-6, row
    assert abs(row["ordinary_ratio"] * row["ordinary_bytes_per_s"] / row["exchange_bytes_per_s"] - 1) < 1e-6, row
assert [one["shards"] for one in bench["small_updates"]] == [1, 64] and all(
    one["updates_per_s"] > 1000 for one in bench["small_updates"]), bench["small_updates"]
text = open(sys.argv[2]).read()
assert text.count("0.25 MiB") == 4 == text.count("\n  ") - 3, text' "$scratch/bench.json" "$scratch/bench.txt"
}
check "bench ps measures" measures
refuses_small() { "$program" bench ps --bytes 5 2>&1 | grep -q "at least 64 KiB"; }
check "bench ps refuses a small size" refuses_small

check "nothing is left in /dev/shm" test "$(shm_files)" == "$before"
check "no process is left" test -z "$(pgrep -f -- "train $job")"
finish_checks
