#!/usr/bin/env bash
# Is the twin true? Twelve jobs, three sizes of a GPT on one rank, two copies, two tensor-parallel ranks and two stages,
# each trained three times as anybody would: `twinpod train`, which predicts its step before the first one. Nothing is
# prepared, and the median step is what the prediction is compared with.
#
#     bench/train/twin.sh                     # some 8 minutes on two cores, with nothing beside it
#     JOBS='small-*' bench/train/twin.sh      # some of them
#     BUILD=build/release ROUNDS=3 bench/train/twin.sh
#     ROWS=rows bench/train/twin.sh           # keeps `job predicted measured` of each run there, and goes on from those
#
# Exit status 1 when the median error is above 7 %, or that of a job's three runs above 15 %.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-build/release}
rounds=${ROUNDS:-3}
wanted=${JOBS:-*}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
rows=${ROWS:-$scratch/rows}
touch "$rows"

# name layers hidden sequence vocabulary micro-batch steps
sizes=("small 4 128 128 512 4 60" "middle 4 256 256 4096 8 16" "large 6 512 256 8192 2 12")
# name ranks tp pp; micro-batches of each copy
layouts=("one 1 1 1 2" "dp2 2 1 1 2" "tp2 2 2 1 2" "pp2 2 1 2 4")

write_job() {  # name layers hidden sequence vocabulary micro-batch steps name ranks tp pp micro-batches
  local copies=$(($9 / ${10} / ${11}))
  cat > "$scratch/job.yaml" << YAML
name: $1-$8
model: {layers: $2, hidden: $3, ffn: $((4 * $3)), vocab: $5, max_sequence: $4, gated_mlp: false, mlp_bias: true,
        attention: {heads: $(($3 / 64)), kv_heads: $(($3 / 64)), head_dim: 64, bias: true}, norm: layer_norm,
        positions: learned, tied_embeddings: true}
layout: {tp: ${10}, pp: ${11}, micro_batch: $6, schedule: 1f1b}
training: {global_batch: $(($6 * ${12} * copies)), sequence: $4, precision: ${PRECISION:-fp32}, optimizer: adam}
YAML
}

number() { grep -o "\"$1\": *[0-9.e+-]*" | head -1 | grep -o '[0-9.e+-]*$'; }

for ((round = 1; round <= rounds; ++round)); do
  for size in "${sizes[@]}"; do
    for layout in "${layouts[@]}"; do
      # shellcheck disable=SC2086
      write_job $size $layout
      name=$(sed -n 's/^name: //p' "$scratch/job.yaml")
      # shellcheck disable=SC2053
      [[ $name == $wanted ]] || continue
      [ "$(grep -c "^$name " "$rows")" -lt "$round" ] || continue
      "$build/twinpod" train "$scratch/job.yaml" --ranks "$(cut -d ' ' -f 2 <<< "$layout")" --text docs,src \
        --steps "${size##* }" --json > "$scratch/run.json"
      predicted=$(number predicted_step_time_s < "$scratch/run.json")
      measured=$(number step_time_s < "$scratch/run.json")
      echo "$name $predicted $measured" | tee -a "$rows" |
        awk '{ printf "%-12s%12.2f ms predicted%12.2f ms measured%+8.1f %%\n", $1, 1e3 * $2, 1e3 * $3, 100 * ($2 / $3 - 1) }' >&2
    done
  done
done

awk '
  function size(x) { return x < 0 ? -x : x }
  function median(list, n,   i, j, t) {
    for (i = 2; i <= n; ++i) for (j = i; j > 1 && list[j - 1] > list[j]; --j) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
    return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
  }
  {
    error = 100 * ($2 / $3 - 1)
    if (!($1 in runs)) order[++jobs] = $1
    errors[$1, ++runs[$1]] = error
    measured[$1, runs[$1]] = $3
    shown[$1] = shown[$1] sprintf("%+8.1f %%", error)
    all[++count] = size(error)
  }
  END {
    printf "%-12s%14s   %s\n", "job", "measured ms", "predicted, against that, run by run; the median of their sizes"
    for (i = 1; i <= jobs; ++i) {
      name = order[i]
      for (r = 1; r <= runs[name]; ++r) { one[r] = size(errors[name, r]); steps[r] = measured[name, r] }
      of_job = median(one, runs[name])
      if (of_job > worst) worst = of_job
      printf "%-12s%14.2f%s%12.1f %%\n", name, 1e3 * median(steps, runs[name]), shown[name], of_job
    }
    typical = median(all, count)
    printf "median error of %d runs of %d jobs: %.1f %% (at most 7 %%); the worst job: %.1f %% (at most 15 %%)\n", count, jobs, typical, worst
    exit typical > 7 || worst > 15
  }' "$rows"
