#!/usr/bin/env bash
# What checkpoints cost training: the share of the steps' time that it waited for them, at one every 20 steps, and the
# steps beside those of a run that saves nothing. Two ranks, a folder on the disk.
#
#     bench/store/stall.sh [DIR [STEPS]]      # default: a folder in /var/tmp, 100 steps
#
# A job is a line: stall and its share by twinpod's own clocks, bytes of a checkpoint, the median step with and without.
cd "$(dirname "$0")/../.." || exit 1
folder=${1:-/var/tmp}
steps=${2:-100}
program=build/release/twinpod
[[ -x $program ]] || { echo "to do: cmake --preset release && cmake --build build/release --target twinpod" >&2 && exit 1; }
scratch=$(mktemp -d "$folder/stall-XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT

trains() {  # trains NAME ARGUMENT...
  local name=$1
  shift
  "$program" train examples/tiny-gpt.yaml --ranks 2 --set training.target_loss=0.01 --steps "$steps" --json "$@" \
    >"$scratch/$name.json" 2>"$scratch/err" </dev/null || { cat "$scratch/err" >&2 && exit 1; }
}
job() {  # job TITLE ARGUMENT...
  local title=$1
  shift
  rm -rf "$scratch/store"
  trains without "$@"
  trains with "$@" --store "$scratch/store" --checkpoint-every 20
  python3 - "$title" "$scratch/without.json" "$scratch/with.json" "$scratch/store/$(cat "$scratch/store/latest")" <<'END'
import json, os, sys
without, run = (json.load(open(path)) for path in sys.argv[2:4])
size = sum(os.path.getsize(os.path.join(sys.argv[4], name)) for name in os.listdir(sys.argv[4]))
print(f"| {sys.argv[1]} | {size / 1e6:.1f} | {run['checkpoints']} | {1e3 * run['checkpoint_stall_s']:.1f} | "
      f"{100 * run['checkpoint_stall_share']:.2f} % | {1e3 * without['step_time_s']:.1f} | {1e3 * run['step_time_s']:.1f} |")
END
}
echo "| job | checkpoint, MB | saved | stall, ms | of the steps' time | step without, ms | with, ms |"
echo "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
larger=(--set model.layers=6 --set model.hidden=384 --set model.ffn=1536 --set model.attention.heads=6)
job "4 x 128, dp 2"
job "4 x 128, tp 2" --tp 2
job "4 x 128, zero 1" --zero 1
job "6 x 384, dp 2" "${larger[@]}"
job "6 x 384, dp 2, bf16" "${larger[@]}" --precision bf16
