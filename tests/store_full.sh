#!/usr/bin/env bash
# A disk that is full for a while, for real: a small file system in memory and a filler file that comes and goes while
# twinpod train saves. Saves fail while it is there and no longer, nothing is left of them, and a run whose newest state
# is not where it should be does not exit 0.
#
#     tests/store_full.sh [--program PATH]
source "$(dirname "$0")/check.bash"
source tests/train_job.bash
if [[ ${1:-} == --program ]]; then program=$2; fi

skip() { echo "skipped: $1" && exit 0; }

disk=$scratch/disk
mkdir "$disk"
mount -t tmpfs -o size=64m tmpfs "$disk" 2>/dev/null || skip "a file system cannot be mounted here: that takes root"
trap 'umount -l "$disk"; rm -rf "$scratch"' EXIT

value() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1])).get(sys.argv[2]))' "$1" "$2"; }
wait_until() {  # wait_until CONDITION...: half a minute at most
  local i
  for ((i = 0; i < 600; ++i)); do
    "$@" && return
    sleep 0.05
  done
  return 1
}
fill() { head -c 100m /dev/zero >"$disk/filler" 2>/dev/null; }
errors() { grep -c "checkpoint of step" "$scratch/err"; }
complain() { echo "$1" && tail -5 "$scratch/err" && return 1; }

# Room for three checkpoints, of which two are kept, and little more.
"$program" train "$job" --ranks 2 --steps 2 --store "$disk/measured" >/dev/null 2>"$scratch/err" </dev/null
one=$(du -s --block-size=1K "$disk/measured" | cut -f1)
rm -r "$disk/measured"
room() { mount -o "remount,size=$((one * 7 / 2))k" "$disk"; }
room

comes_and_goes() {
  local job_process before after named
  "$program" train "$job" --ranks 2 --steps 1000000 --store "$disk/a" --checkpoint-every 5 --json \
    >"$scratch/out.json" 2>"$scratch/err" </dev/null &
  job_process=$!
  saved_more() { [[ -e $disk/a/latest && $(cat "$disk/a/latest") != "$named" ]]; }
  failed_more() { (($(errors) > before)); }
  wait_until saved_more || { kill "$job_process" && complain "nothing was saved" && return 1; }
  for _ in 1 2 3; do
    before=$(errors)
    fill
    wait_until failed_more || { kill "$job_process" && complain "no save failed" && return 1; }
    rm "$disk/filler"
    after=$(errors)
    named=$(cat "$disk/a/latest")
    wait_until saved_more || { kill "$job_process" && complain "no save since the disk has room" && return 1; }
    (($(errors) <= after + 1)) || { kill "$job_process" && complain "saves failed after there was room" && return 1; }
  done
  kill "$job_process"
  wait "$job_process" || complain "exit status $?" || return 1
  echo "$(value "$scratch/out.json" checkpoints) saved, $(value "$scratch/out.json" checkpoints_failed) failed"
  [[ $(value "$scratch/out.json" checkpoint_step) == "$(value "$scratch/out.json" steps)" ]] || complain "the newest state is not saved"
}
check "a filler file comes and goes: saves fail while it is there, and no longer" comes_and_goes
nothing_left() { (($(find "$disk/a" -maxdepth 1 -name 'checkpoint-*' | wc -l) <= 2)) && ! find "$disk/a" -name '*.partial' | grep -q .; }
check "... and nothing is left of those that failed" nothing_left

stays_full() {
  local status steps
  fill
  steps=$(($(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["steps"] + json.load(open(sys.argv[1]))["first_step"])' "$scratch/out.json") + 3))
  "$program" train --resume "$disk/a" --steps "$steps" --json >"$scratch/full.json" 2>"$scratch/err" </dev/null
  status=$?
  [[ $status == 1 && $(value "$scratch/full.json" steps) == 3 ]] || complain "status $status: $(cat "$scratch/full.json")" || return 1
  grep -q "could not be saved to $disk/a" "$scratch/err" && [[ $(value "$scratch/full.json" error) == *"could not be saved"* ]] || return 1
  "$program" train --resume "$disk/a" --steps "$steps" >"$scratch/full.txt" 2>"$scratch/err" </dev/null
  [[ $? == 1 ]] && grep -q "While saving: " "$scratch/full.txt"
}
check "full until the end: the answer stands, says so, and the exit status is 1" stays_full
resumes() {
  local i
  rm "$disk/filler"
  for i in 1 2 3; do
    "$program" train --resume "$disk/a" --steps $((1000000 + i)) --metrics "$scratch/lines" >/dev/null 2>"$scratch/err" </dev/null &
    local job_process=$!
    wait_until test -s "$scratch/lines"
    kill "$job_process"
    wait "$job_process" || complain "resume $i: exit status $?" || return 1
    rm "$scratch/lines"
  done
}
check "there is room again: resume works, again and again" resumes

# The first tier is full; the second is healthy.
starves_nobody() {
  fill
  local tiers="[{tier: memory, path: $disk/m}, {tier: shared, path: $scratch/healthy, every: 1}]"
  "$program" train "$job" --ranks 2 --steps 20 --checkpoint-every 5 --set "checkpoint.store=$tiers" --json \
    >"$scratch/out.json" 2>"$scratch/err" </dev/null || complain "exit status $?" || return 1
  [[ $(value "$scratch/out.json" checkpoint_step) == 20 && -e $scratch/healthy/latest ]] &&
    grep -q "on tier memory: .*No space left" "$scratch/err" && grep -q "it goes to tier shared" "$scratch/err"
}
check "a full first tier leaves the saves to the next" starves_nobody
finish_checks
