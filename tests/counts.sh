#!/usr/bin/env bash
# How ./test counts what the scripts print: what is skipped is never ok, and a script that checks nothing has failed.
source "$(dirname "$0")/check.bash"
read_options "$@"

# The functions of ./test without its steps.
eval "$(sed -n '/^record() {/,/^}/p; /^note_skips() {/,/^}/p; /^record_script() {/,/^}/p; /^finish() {/,/^}/p' test)"

counts() {  # counts WANTED STATUS LINE...: with WANTED in what ./test says of a script that prints the lines
  local wanted=$1 status=$2
  shift 2
  (($#)) && printf '%s\n' "$@" >"$scratch/log" || : >"$scratch/log"
  (passed=0 failed=0 skipped=0 && record_script tests/x.sh "$scratch/log" "$status" && finish) >"$scratch/out"
  grep -qxF -- "$wanted" "$scratch/out" && return
  cat "$scratch/out"
  return 1
}

check "counts: checks that hold" counts '2 passed, 0 failed' 0 'ok a' 'ok b'
check "counts: a check that does not hold" counts '1 passed, 1 failed' 1 'ok a' 'not ok b'
check "counts: a skipped check is not ok" counts '1 passed, 0 failed, 1 skipped' 0 'ok a' 'skipped b: there is no python3'
check "counts: a skipped script is not ok" counts '0 passed, 0 failed, 1 skipped' 0 'skipped b: X is not set'
check "counts: a skipped script says why" counts 'skipped tests/x.sh: b: X is not set' 0 'skipped b: X is not set'
check "counts: a script that checks nothing has failed" counts '0 passed, 1 failed' 0
check "counts: a script that ends in the middle has failed" counts '1 passed, 1 failed' 134 'ok a'
finish_checks
