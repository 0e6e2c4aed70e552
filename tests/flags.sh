#!/usr/bin/env bash
# Every flag of every command that takes a value, as its help lists it, with numbers that are none or far too large: refused
# or sensible (tests/attack.cpp says what is neither).
#
#     tests/flags.sh [--program PATH] [--all] [--only COMMAND]
source "$(dirname "$0")/check.bash"
all= only=
while (($#)); do
  case $1 in
    --program) program=$2 && shift ;;
    --all) all=yes ;;
    --only) only=$2 && shift ;;
    *) echo "usage: $0 [--program PATH] [--all] [--only COMMAND]" >&2 && exit 2 ;;
  esac
  shift
done
attack=${TWINPOD_ATTACK:-build/release/twinpod_attack}
mkdir -p "$scratch/tmp" "$scratch/text"
head -c 4000 docs/jobs.md >"$scratch/text/a.md"
job=$scratch/small.yaml
cat >"$job" <<END
name: small
model: {name: small, layers: 4, hidden: 32, ffn: 64, vocab: 257, max_sequence: 16, attention: {heads: 2}}
cluster:
  name: cores
  devices: 2
  device: {name: core, family: cpu, peak: {fp32: 1e11, bf16: 1e11}, memory: 200 MB, memory_bandwidth: 1e10}
  node: {devices: 2, scale_up: {kind: switched, bandwidth: 1e10}}
data: {text: [$scratch/text], evaluation_share: 0.1}
layout: {micro_batch: 1}
training: {global_batch: 4, sequence: 16, precision: fp32, steps: 2, learning_rate: 1e-3, evaluation_batches: 1}
END
twinpod train "$job" --store "$scratch/store" >/dev/null 2>&1 </dev/null
check "flags: a store to look into" test -e "$scratch/store/latest"

values=(0 -1 1 2 3 1e308 1e-308 5e-324 1e30 1e18 1e15 nan inf -inf 2147483647 2147483648 9223372036854775807
  18446744073709551616 99999999999 1000000 65536 text '' 0.5 1.5 ' ' 1e999 0x10 2,4 1..1000000000 1..64:x2 0..0
  1000000s 1e308d 1e15s 1000TB 1e24B 100% 1x '99999999999x' x=1e308 0:1e308 any:3:1e308 ssp:99999999999)
# How a command is asked, for short; train and bench stop of themselves.
declare -A asked=(
  [estimate]="gpt3-1.3b --on dgx-a100" [plan]="$job" [program]="$job" [simulate]="$job" [topology]="dgx-a100"
  [collective]="all_reduce --on dgx-a100 --bytes 1M" [train]="$job --steps 1" [checkpoint]="ls $scratch/store"
  [validate]="--reference" [bench]="comm --bytes 8 --verb all_reduce --iterations 1 --blocks 1 --warmup 0"
  [data]="show nothing" [study]="sync-async $job --steps 2 --workers 2 --simulated-workers none --modes all_reduce --pace 1ms")
more=(
  "checkpoint show $scratch/store" "checkpoint prune $scratch/store --dry-run" "checkpoint diff $scratch/store"
  "simulate gpt3-1.3b --on dgx-a100 --servers 2 --workers 8 --mode async --global-batch 64" "simulate gpt3-1.3b --on dgx-superpod-a100-140 --devices 64"
  "plan gpt3-1.3b --on dgx-superpod-a100-140 --devices 64" "plan gpt3-1.3b --on dgx-superpod-a100-140 --devices 64 --curve"
  "estimate mixtral-8x7b --on h100-superpod --devices 64 --ep 8" "topology dgx-superpod-a100-140" "topology tpu-v4-4096"
  "collective all_reduce --on dgx-superpod-a100-140 --algorithm ring" "collective broadcast --on dgx-a100 --bytes 1M"
  "train $job --servers 1 --workers 2 --steps 1" "bench ps --bytes 1KiB" "bench store $scratch --bytes 1MiB --ranks 1 --rounds 1"
  "program gpt3-1.3b --on dgx-a100")
if [[ -z $all ]]; then more=("${more[@]:3:4}"); fi

flags_of() { twinpod "$1" --help | sed -nE '/^flags:/,/^examples:/s/^  --([a-z0-9-]+)(, --?[a-z-]+)? [A-Z0-9|a-z].*/\1/p' |
  while read -r flag; do twinpod "$1" --help | grep -qE "^  --$flag(, --?[a-z-]+)? [A-Z0-9]" && echo "$flag"; done; }

commands=$scratch/commands
of=0
for command in "${!asked[@]}" "${more[@]}"; do
  name=${command%% *}
  if [[ -n $only && $name != "$only" ]]; then continue; fi
  base=${asked[$command]+$name ${asked[$command]}}
  base=${base:-$command}
  for flag in $(flags_of "$name"); do
    case $flag in  # what writes files, and what names them
      output|svg|csv|trace|timeline|chakra|metrics|store|export|recording|refit|write-accuracy|catalog|text|data|emit|disk) continue ;;
    esac
    for value in "${values[@]}"; do
      of=$((of + 1))
      if [[ -z $all ]] && ((of % ${TWINPOD_FLAGS_EVERY:-23})); then continue; fi
      json=()
      if ((of % 2)); then json=(--json); fi
      (IFS=$'\t' && echo "${base// /$'\t'}	--$flag=$value${json:+	--json}") >>"$commands"
    done
  done
done
check "flags: $(wc -l <"$commands") of $of values are refused, or make sense" env TMPDIR="$scratch/tmp" "$attack" run "$commands"
finish_checks
