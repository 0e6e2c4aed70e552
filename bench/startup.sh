#!/usr/bin/env bash
# How long a command takes from its start to its end, process start included: best and median of 50 runs, in milliseconds.
#
#     bench/startup.sh                     four commands, and one of them through ./twinpod, which looks for changed sources first
#     bench/startup.sh --program PATH      that program
#     bench/startup.sh show devices        another command
#
# Fails when the best run of a command, without ./twinpod, is slower than the bar.
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." || exit 1
runs=50
bar_us=15000
program=build/release/twinpod
wrapper=./twinpod

if [[ ${1:-} == --program ]]; then
  program=$2
  wrapper=
  shift 2
fi

# The microseconds of each run, fastest first.
times_us() {
  local run start end
  for ((run = 0; run < runs; run++)); do
    start=${EPOCHREALTIME/[.,]/}
    "$@" >/dev/null 2>&1 </dev/null
    end=${EPOCHREALTIME/[.,]/}
    echo $((end - start))
  done | sort -n
}

milliseconds() { printf '%d.%02d' $(($1 / 1000)) $(($1 % 1000 / 10)); }

measure() {  # measure LABEL COMMAND...
  local label=$1 sorted best_us
  shift
  mapfile -t sorted < <(times_us "$@")
  best_us=${sorted[0]}
  printf '%-28s best %6s ms   median %6s ms   of %d\n' "$label" "$(milliseconds "$best_us")" \
    "$(milliseconds "${sorted[runs / 2]}")" "$runs"
  if ((best_us > bar_us)); then slower=1; fi
}

[[ -z $wrapper ]] || "$wrapper" version >/dev/null 2>&1  # builds the program, if need be
[[ -x $program ]] || { echo "bench/startup.sh: there is no program at $program" >&2 && exit 2; }
gpt3=(estimate gpt3-175b --on dgx-superpod-a100-140 --devices 1024 --tp 8)
if [[ -n $wrapper ]]; then measure "an estimate, by $wrapper" "$wrapper" "${gpt3[@]}" --pp 8 --tokens 300e9; fi
slower=0
if (($#)); then
  measure "$*" "$program" "$@"
else
  measure "an estimate" "$program" "${gpt3[@]}" --pp 8 --tokens 300e9
  measure "a job file" "$program" estimate examples/llama3-70b.yaml
  measure "a job that does not fit" "$program" "${gpt3[@]}" --zero 0
  measure "a list of the catalog" "$program" show devices
fi
if ((slower)); then
  echo "slower than the bar of $(milliseconds $bar_us) ms"
  exit 1
fi
