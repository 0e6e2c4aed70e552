#!/usr/bin/env bash
# What each fusion, recomputation, dropout and bf16 bring: time and memory of a training step, each measured in turn on
# one core. A step's time is the sum of the shortest time that each kind of op took in any round, because neighbours on
# the machine disturb whole steps by more than a fusion brings.
#
#     bench/train/brings.sh [ROUNDS [SHAPE]]      # default: 3 rounds of shape A of train_step_bench
#
# Needs an idle core. A row has one thing different from the first.
source "$(dirname "$0")/begin.bash"
rounds=${1:-3}
shape=${2:-A}

case $shape in
  A) layers=6 hidden=384 heads=6 sequence=256 vocab=4096 batch=8 steps=4 ;;
  B) layers=12 hidden=768 heads=12 sequence=512 vocab=50304 batch=2 steps=3 ;;
  *) echo "brings.sh: shapes are A and B, not $shape" >&2 && exit 2 ;;
esac
cat >"$scratch/job.yaml" <<END_OF_JOB
model: {layers: $layers, hidden: $hidden, ffn: $((4 * hidden)), vocab: $vocab, max_sequence: $sequence, gated_mlp: false,
        mlp_bias: true, attention: {heads: $heads, kv_heads: $heads, head_dim: 64, bias: true}, norm: layer_norm,
        positions: learned, tied_embeddings: true}
cluster:
  device: {name: a core, family: cpu, peak: {fp32: 100 GFLOP/s, bf16: 100 GFLOP/s}, memory: 32 GB,
           memory_bandwidth: 10 GB/s}
  node: {devices: 1, scale_up: {kind: switched, bandwidth: 10 GB/s}}
  devices: 1
stack: twinpod
layout: {micro_batch: $batch}
training: {global_batch: $batch, sequence: $sequence, precision: fp32, optimizer: adam}
END_OF_JOB

# Name, and what is set.
rows=(
  "all fusions, fp32|"
  "bias_gelu off|training.unfused=[bias_gelu]"
  "residual_norm off|training.unfused=[residual_norm]"
  "cross_entropy off|training.unfused=[cross_entropy]"
  "attention off|training.unfused=[attention]"
  "optimizer off|training.unfused=[optimizer]"
  "all off|training.unfused=[all]"
  "recompute selective|layout.recompute=selective"
  "recompute full|layout.recompute=full"
  "attention off, selective|training.unfused=[attention] layout.recompute=selective"
  "dropout 0.1|training.dropout=0.1"
  "dropout 0.1, of scores too|training.dropout=0.1 training.attention_dropout=0.1"
  "bf16|training.precision=bf16"
)

for ((round = 0; round < rounds; ++round)); do
  for row in "${rows[@]}"; do
    arguments=()
    for setting in ${row#*|}; do arguments+=(--set "$setting"); done
    answer=$("$ours" "$scratch/job.yaml" "${arguments[@]}" --steps $steps --where --no-peak --json) || exit 1
    memory=$(sed -E 's/.*"peak_memory_bytes": ([0-9]+).*/\1/' <<<"$answer")
    ops=$(sed -E 's/.*"where_s": \{([^}]*)\}.*/\1/' <<<"$answer")
    echo "${row%%|*}|$memory|$ops" >>"$scratch/found"
  done
done

awk -F'|' -v tokens=$((batch * sequence)) '
  !($1 in memory) { names[count++] = $1; memory[$1] = $2 }
  {
    for (i = split($3, ops, ", "); i > 0; --i) {
      split(ops[i], parts, ": ")
      key = $1 SUBSEP parts[1]
      if (!(key in best) || parts[2] + 0 < best[key]) best[key] = parts[2] + 0
    }
  }
  END {
    for (key in best) {
      split(key, parts, SUBSEP)
      seconds[parts[1]] += best[key]
    }
    printf "%-28s%10s%10s%12s%12s%10s\n", "", "step, ms", "", "tokens/s", "peak, MB", ""
    for (i = 0; i < count; ++i) {
      name = names[i]
      printf "%-28s%10.1f%+9.1f%%%12.0f%12.1f%+9.1f%%\n", name, 1e3 * seconds[name],
             100 * (seconds[name] / seconds[names[0]] - 1), tokens / seconds[name], memory[name] / 1e6,
             100 * (memory[name] / memory[names[0]] - 1)
    }
  }' "$scratch/found"
