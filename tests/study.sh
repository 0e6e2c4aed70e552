#!/usr/bin/env bash
# twinpod study sync-async and simulate --workers: what they print and draw, and what they refuse.
#
#     tests/study.sh [--program PATH]
source "$(dirname "$0")/check.bash"
source tests/train_job.bash
if [[ ${1:-} == --program ]]; then program=$2; fi

refuses() {  # refuses STATUS PATTERN ARGUMENT...
  local wanted=$1 pattern=$2 status
  shift 2
  twinpod "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
  status=$?
  [[ $status == "$wanted" && ! -s $scratch/out ]] && grep -qE -- "$pattern" "$scratch/err" && return
  echo "status $status: $(cat "$scratch/out" "$scratch/err")"
  return 1
}

# simulate with the protocol's own code
served=(gpt3-1.3b --on h100-superpod --servers 4 --workers 16 --global-batch 256 --steps 6)
simulates() { twinpod simulate "${served[@]}" "$@" --json >"$scratch/run.json" 2>"$scratch/err" </dev/null; }
says() {  # says EXPRESSION, of the run r
  python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
assert eval(f"({sys.argv[2]})"), r' "$scratch/run.json" "$1"
}
simulates --mode async
check "simulate has the keys of train" says '{"step_time_s", "tokens_per_s", "scale_factor", "staleness_max",
  "staleness_histogram", "pushed_bytes", "pulled_bytes", "updates_applied", "updates_lost", "failovers", "server_busy_s",
  "server_queue_s", "worker_waited_s"} <= set(r)'
check "all updates are there" says 'r["updates_applied"] == r["shards"] * 16 * 6 and r["updates_lost"] == 0'
check "all bytes are counted" says 'abs(r["pushed_bytes"] / (1.32e9 * 4 * 16 * 6) - 1) < 0.01'
cp "$scratch/run.json" "$scratch/first.json"
simulates --mode async
check "the same twice" says '{k: v for k, v in r.items() if k != "seconds"} ==
  {k: v for k, v in json.load(open("'"$scratch"'/first.json")).items() if k != "seconds"}'
simulates --mode sync
check "sync is never stale" says 'r["staleness_max"] == 0'
simulates --mode ssp:2 --straggler 0:5 --step-time 30s
check "ssp keeps its bound" says '0 < r["staleness_max"] <= 2'
simulates --mode async --compress 1-bit
check "compressed pushes are small" says 'r["pushed_bytes"] < 0.08 * r["pulled_bytes"]'
simulates --mode async --copies 2 --kill server:1@3s
check "a server dies and nothing is lost" says 'r["failovers"] > 0 and r["deaths"] == 1 and r["updates_lost"] == 0'
check "all copies gone" refuses 1 "are lost" simulate "${served[@]}" --mode async --kill server:1@3s
check "a table for people" grep -q "servers busy" <(twinpod simulate "${served[@]}" --mode async)
check "no such process to kill" refuses 2 "--kill server:9@1s" simulate "${served[@]}" --mode async --kill server:9@1s
check "a batch that cannot be shared" refuses 2 "global-batch 48" simulate "${served[@]}" --mode async --global-batch 40
check "more workers than devices" refuses 1 "the cluster has" simulate "${served[@]}" --workers 99999 --mode async
check "flags of the plain step" refuses 2 "--cut does not go with" simulate "${served[@]}" --mode async --cut link=a-b

# the study
studies() {
  timeout 60 "$program" study sync-async "$job" --workers 2 --steps 12 --pace 20ms --simulated-workers 4,8 \
    -o "$scratch/study.svg" "$@" >"$scratch/run.json" 2>"$scratch/err" </dev/null || { cat "$scratch/err" && return 1; }
}
check "a study" studies --json
check "... all modes, trained and simulated" says '[m["mode"] for m in r["modes"]] == ["all_reduce", "sync", "async", "ssp:3"]
  and all(m["tokens_per_s"] > 0 and m["simulated_tokens_per_s"] > 0 and m["evaluations"] and m["final_loss"] > 0
          and m["updates_lost"] == 0 for m in r["modes"])'
check "... time to target" says 'all(m["time_to_target_s"] > 0 for m in r["modes"])'
check "... staleness" says 'r["modes"][1]["staleness_max"] == 0 and r["modes"][3]["staleness_max"] <= 3'
check "... scaling" says '[(s["workers"], s["mode"]) for s in r["scaling"]] ==
  [(w, m) for w in (4, 8) for m in ("all_reduce", "sync", "async", "ssp:3")]'
check "... a picture" python3 -c 'import sys, xml.dom.minidom as dom
texts = [t.firstChild.data for t in dom.parse(sys.argv[1]).getElementsByTagName("text")]
for wanted in ("Loss against time", "Loss against samples", "Throughput by mode", "Simulated at scale", "ssp:3"):
    assert wanted in texts, wanted' "$scratch/study.svg"
check "... and a table" grep -q "all_reduce" <(studies --modes all_reduce,async --straggler none && cat "$scratch/run.json")
check "what to study" refuses 2 "sync-async" study "$job"
check "no such mode" refuses 2 "all_reduce, sync, async, ssp:3" study sync-async "$job" --modes sink
check "no such worker" refuses 2 "straggler names worker 7" study sync-async "$job" --straggler 7:2
check "a picture is SVG" refuses 2 "SVG" study sync-async "$job" -o study.png
finish_checks
