#!/usr/bin/env bash
# twinpod train: the same loss on every layout and transport, predicted memory to the byte, what is refused.
#
#     tests/train.sh [--program PATH]
source "$(dirname "$0")/check.bash"
if [[ ${1:-} == --program ]]; then program=$2; fi

job=$scratch/job.yaml
cat >"$job" <<END
name: small
model:
  name: small
  layers: 4
  hidden: 64
  ffn: 128
  vocab: 257
  max_sequence: 32
  attention: {heads: 4, bias: true}
  mlp_bias: true
  positions: learned
  tied_embeddings: true
data: {text: [$PWD/docs], evaluation_share: 0.02}
training: {global_batch: 8, sequence: 32, precision: fp32, steps: 6, learning_rate: 1e-3, evaluation_batches: 2}
END

trains() { twinpod train "$job" "$@" --json >"$scratch/out.json" 2>"$scratch/err" </dev/null; }

# Losses like those of one process, memory as predicted.
same_as_alone() {  # same_as_alone FLAG...
  if ! trains "$@"; then
    cat "$scratch/err"
    return 1
  fi
  python3 - "$scratch/alone.json" "$scratch/out.json" <<'END'
import json, sys
alone, other = (json.load(open(path)) for path in sys.argv[1:])
assert len(alone["losses"]) == len(other["losses"]) == 6
for a, b in zip(alone["losses"] + [alone["final_loss"]], other["losses"] + [other["final_loss"]]):
    assert abs(a - b) <= 1e-5 * a, (a, b)
assert other["peak_memory_bytes_by_rank"] == other["predicted_peak_memory_bytes_by_rank"]
for key in ("steps", "tokens_per_s", "mfu", "step_time_s", "predicted_step_time_s", "time_to_target_s"):
    assert key in other, key
END
}

refuses() {  # refuses STATUS TEXT ARGUMENT...
  local wanted=$1 text=$2 status
  shift 2
  twinpod train "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
  status=$?
  [[ $status == "$wanted" && ! -s $scratch/out ]] && grep -qF -- "$text" "$scratch/err" && return
  echo "status $status: $(cat "$scratch/out" "$scratch/err")"
  return 1
}

trains --ranks 1
cp "$scratch/out.json" "$scratch/alone.json"
check "one rank trains" grep -q final_loss "$scratch/alone.json"
check "dp 2" same_as_alone --ranks 2
check "tp 2, sequence parallel" same_as_alone --ranks 2 --tp 2 --sp
check "pp 2" same_as_alone --ranks 2 --pp 2
check "pp 2, interleaved" same_as_alone --ranks 2 --pp 2 --vp 2
check "dp 2, zero 3, full recompute" same_as_alone --ranks 2 --zero 3 --recompute full
check "dp 2 x tp 2 x pp 2, zero 1" same_as_alone --ranks 8 --tp 2 --pp 2 --zero 1
check "gradients reduced beside the passes" same_as_alone --ranks 2 --overlap
check "ranks that are threads" same_as_alone --ranks 2 --tp 2 --threads
if command -v mpirun >/dev/null; then
  over_mpi() {
    mpirun --allow-run-as-root --oversubscribe -n 2 "$program" train "$job" --tp 2 --json >"$scratch/mpi.json" 2>"$scratch/err" \
      </dev/null && python3 -c 'import json, sys
a, b = (json.load(open(path))["losses"] for path in sys.argv[1:])
assert all(abs(x - y) <= 1e-5 * x for x, y in zip(a, b)) and len(a) == len(b)' "$scratch/alone.json" "$scratch/mpi.json"
  }
  check "over MPI" over_mpi
fi

bits() { trains --ranks 2 --tp 2 --deterministic && python3 -c 'import json, sys; print([x.hex() for x in json.load(open(sys.argv[1]))["losses"]])' "$scratch/out.json"; }
check "deterministic: the same bits twice" test "$(bits)" = "$(bits)"

files() {
  trains --ranks 2 --pp 2 --timeline "$scratch/measured.json" --trace "$scratch/trace.json" --metrics "$scratch/metrics.jsonl" &&
    [[ $(wc -l <"$scratch/metrics.jsonl") == 6 ]] && grep -q traceEvents "$scratch/trace.json" &&
    twinpod compare "$scratch/measured.json" "$scratch/measured.json" | grep -q "backward mlp"
}
check "timeline, trace, metrics, and compare reads them" files

check "no data" refuses 2 "train needs data" gpt2 --ranks 1
check "a model that is not trained here" refuses 1 "mixtures of experts" mixtral-8x7b --text docs
check "tokens outside the vocabulary" refuses 1 "is not in the vocabulary of 100" "$job" --set model.vocab=100
check "data that is too short" refuses 1 "samples" "$job" --set training.global_batch=1000000
check "a loss that is not finite" refuses 1 "step" "$job" --learning-rate 100 --set training.clip=0 --steps 60 --set training.weight_decay=50
check "a schedule that is not trained here" refuses 1 "schedule" "$job" --ranks 2 --pp 2 --schedule zb-v
check "a layout that does not divide" refuses 1 "layout" "$job" --ranks 3 --tp 2
check "compare: no timeline" bash -c "! $program compare $job $job 2>/dev/null"
finish_checks
