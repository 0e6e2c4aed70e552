#!/usr/bin/env bash
# A plan as a process: Ctrl-C ends the search and not the answer, and the answer does not depend on who looks.
#
#     tests/plan.sh [--program PATH]
source "$(dirname "$0")/check.bash"
read_options "$@"
if [[ $program == ./twinpod ]]; then
  twinpod version >/dev/null  # builds, if need be
  program=build/release/twinpod  # signals must reach the program itself, not the script around it
fi

# Minutes of work on a laptop; each number of devices is a place to stop at.
long_plan=(plan deepseek-v3 --on h100-superpod --devices 8..16384 --space full)

wait_at_most() {  # wait_at_most SECONDS PID
  local tenths=$(($1 * 10))
  while kill -0 "$2" 2>/dev/null && ((tenths-- > 0)); do sleep 0.1; done
  if kill -KILL "$2" 2>/dev/null; then echo "still running after $1 s"; fi
}

interrupt_after() {  # interrupt_after SECONDS ARGUMENT...: standard output into $scratch/out, the status into `status`
  local seconds=$1 pid
  shift
  twinpod_alone "$@" >"$scratch/out" 2>"$scratch/err" </dev/null &
  pid=$!
  sleep "$seconds"
  kill -INT "$pid"
  wait_at_most 8 "$pid"
  wait "$pid"
  status=$?
}

# In the place of the subshell, so that $! is the program.
twinpod_alone() { exec "$program" "$@"; }

gives_the_best_so_far() {
  interrupt_after 1 "${long_plan[@]}"
  [[ $status == 0 ]] || { echo "status $status: $(cat "$scratch/err")" && return 1; }
  grep -q '^stopped: the best so far$' "$scratch/out" && grep -q '^best: dp ' "$scratch/out"
}

says_so_in_json() {
  interrupt_after 1 "${long_plan[@]}" --json --top 5
  [[ $status == 0 ]] || { echo "status $status: $(cat "$scratch/err")" && return 1; }
  grep -q '"stopped": true' "$scratch/out" && grep -q '"rank": 1,' "$scratch/out"
}

is_the_same_on_one_core() {
  local -a plan=(plan llama3-70b --on h100-superpod --devices 512 --csv --top 200)
  "$program" "${plan[@]}" >"$scratch/all"
  taskset -c 0 "$program" "${plan[@]}" >"$scratch/one"
  cmp "$scratch/all" "$scratch/one"
}

prints_no_progress_into_a_pipe() {
  "$program" plan llama3-70b --on h100-superpod --devices 512 2>"$scratch/err" >/dev/null </dev/null
  [[ ! -s $scratch/err ]]
}

draws_the_pareto_set() {
  "$program" plan llama3-8b --on dgx-h100 --pareto time,memory --svg "$scratch/plan.svg" >/dev/null
  grep -q '^<svg' "$scratch/plan.svg" && grep -q '</svg>' "$scratch/plan.svg"
}

check "plan: Ctrl-C gives the best so far" gives_the_best_so_far
check "plan: Ctrl-C with --json says that it was stopped" says_so_in_json
check "plan: the ranking is the same on one core" is_the_same_on_one_core
check "plan: no progress bar where nobody looks" prints_no_progress_into_a_pipe
check "plan: --svg draws a file" draws_the_pareto_set
finish_checks
