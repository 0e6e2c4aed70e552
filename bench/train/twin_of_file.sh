#!/usr/bin/env bash
# Is the twin true? Twelve jobs, predicted by `simulate` on the cluster file of this machine, and trained here.
#
#     bench/train/twin_of_file.sh                      # measures the machine first: some 8 minutes in all, and nothing beside it
#     bench/train/twin_of_file.sh here.yaml            # with a file of `twinpod bench machine`
#     BUILD=build/release STEPS=4 ROUNDS=3 bench/train/twin_of_file.sh here.yaml
#
# Needs twinpod and bench/train_step_bench in $BUILD (cmake --build --preset release --target train_step_bench).
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build/release}
steps=${STEPS:-4}
rounds=${ROUNDS:-3}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

here=${1:-$scratch/here.yaml}
[ -e "$here" ] || "$build/twinpod" bench machine -o "$here" > /dev/null
here=$(realpath "$here")

# layers hidden sequence vocabulary micro-batch
sizes=("4 256 256 4096 8" "6 384 256 4096 8" "8 512 512 8192 2")
# name devices tp pp; micro-batches of each copy
layouts=("one 1 1 1 1" "dp2 2 1 1 1" "tp2 2 2 1 1" "pp2 2 1 2 4")

write_job() {  # layers hidden sequence vocabulary micro-batch name devices tp pp micro-batches
  local copies=$(($7 / $8 / $9))
  cat > "$scratch/job.yaml" << YAML
name: $1 x $2, $6
model: {layers: $1, hidden: $2, ffn: $((4 * $2)), vocab: $4, max_sequence: $3, gated_mlp: false, mlp_bias: true,
        attention: {heads: $(($2 / 64)), kv_heads: $(($2 / 64)), head_dim: 64, bias: true}, norm: layer_norm,
        positions: learned, tied_embeddings: true}
cluster: $here
devices: $7
stack: twinpod
layout: {tp: $8, pp: $9, micro_batch: $5, schedule: 1f1b}
training: {global_batch: $(($5 * ${10} * copies)), sequence: $3, precision: fp32, optimizer: adam}
YAML
}

number() { grep -o "\"$1\": *[0-9.e+-]*" | head -1 | grep -o '[0-9.e+-]*$'; }

# The best step is what to compare with: `bench machine` has the best of its blocks too, because a machine is seldom
# left alone, and all jobs are measured in turn several times, because it may be slow for seconds. The median says how
# quiet it was.
for ((round = 0; round < rounds; ++round)); do
  for size in "${sizes[@]}"; do
    for layout in "${layouts[@]}"; do
      # shellcheck disable=SC2086
      write_job $size $layout
      name=$(sed -n 's/^name: //p' "$scratch/job.yaml")
      predicted=$("$build/twinpod" simulate "$scratch/job.yaml" --json | number step_time_s)
      "$build/bench/train_step_bench" "$scratch/job.yaml" --no-peak --rounds 1 --steps "$steps" --json > "$scratch/measured.json"
      echo "$name|$predicted|$(number step_time_s < "$scratch/measured.json")|$(number median_step_time_s < "$scratch/measured.json")" \
        >> "$scratch/rows"
    done
  done
done

printf '%-16s%14s%14s%14s%9s\n' job 'predicted s' 'best s' 'median s' error
awk -F '|' -v errors="$scratch/errors" '
  !($1 in best) { order[++jobs] = $1; best[$1] = $3 }
  { predicted[$1] = $2; medians[$1] += $4; rounds[$1]++; if ($3 < best[$1]) best[$1] = $3 }
  function error(p, m) { return p > m ? p / m - 1 : 1 - p / m }
  END {
    for (i = 1; i <= jobs; ++i) {
      name = order[i]; p = predicted[name]; b = best[name]; m = medians[name] / rounds[name]
      printf "%-16s%14.4f%14.4f%14.4f%8.1f%%\n", name, p, b, m, 100 * (p / b - 1)
      print error(p, b), error(p, m) > errors
    }
  }' "$scratch/rows"
median_of() {
  cut -d ' ' -f "$1" "$scratch/errors" | sort -g |
    awk '{ e[NR] = $1 } END { print 100 * (e[int((NR + 1) / 2)] + e[int(NR / 2) + 1]) / 2 }'
}
printf 'median error of %d jobs: %.1f%% of the best step, %.1f%% of the median step\n' \
  "$(wc -l < "$scratch/errors")" "$(median_of 1)" "$(median_of 2)"
