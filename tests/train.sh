#!/usr/bin/env bash
# twinpod train: the same loss on every layout and transport, predicted memory to the byte, what is refused.
#
#     tests/train.sh [--program PATH]
source "$(dirname "$0")/check.bash"
source tests/train_job.bash
if [[ ${1:-} == --program ]]; then program=$2; fi

trains() { twinpod train "$job" "$@" --json >"$scratch/out.json" 2>"$scratch/err" </dev/null; }

same_as_alone() {  # same_as_alone FLAG...
  trains "$@" || { cat "$scratch/err" && return 1; }
  same_run "$scratch/alone.json" "$scratch/out.json"
}

# Nothing is left behind: no answer, no recording of a failure.
refuses() {  # refuses STATUS PATTERN ARGUMENT...
  local wanted=$1 pattern=$2 status
  shift 2
  twinpod train "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
  status=$?
  [[ $status == "$wanted" && ! -s $scratch/out && ! -e twinpod-failure.json ]] &&
    grep -qE -- "$pattern" "$scratch/err" && return
  echo "status $status: $(cat "$scratch/out" "$scratch/err")"
  ls twinpod-failure.json 2>/dev/null
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

cat >"$scratch/config.json" <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64,
 "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 257,
 "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": false}
END
check "a model that is no job file" grep -q final_loss <(twinpod train "$scratch/config.json" --text "$scratch/text" \
  --sequence 16 --global-batch 2 --steps 2 --precision fp32 --json </dev/null)

check "... plain passes in the place of fused ones" same_as_alone --unfused all
check "... two of them, on two ranks" same_as_alone --ranks 2 --tp 2 --unfused attention,optimizer
twinpod train "$job" --dropout 0.1 --json >"$scratch/dropped.json" 2>"$scratch/err" </dev/null
drops() {  # the same elements in any layout, and others than none
  trains --dropout 0.1 "$@" && same_run "$scratch/dropped.json" "$scratch/out.json" &&
    ! same_run "$scratch/alone.json" "$scratch/out.json" 2>/dev/null
}
check "dropout, tp 2" drops --ranks 2 --tp 2
check "dropout, dp 2 without fusions" drops --ranks 2 --unfused all

measured_here() {
  grep -v '^cluster:' "$job" >"$scratch/here-job.yaml"
  twinpod train "$scratch/here-job.yaml" --ranks 2 --json >"$scratch/out.json" 2>"$scratch/err" </dev/null && grep -q '"prediction_basis": "measured here just now"' "$scratch/out.json"
}
check "predicted by figures that were measured just now" measured_here
on_cluster() {
  sed -n 's/^cluster: //p' "$job" >"$scratch/here.yaml"
  trains --ranks 2 --on "$scratch/here.yaml" &&
    grep -q "\"prediction_basis\": \"from $scratch/here.yaml\"" "$scratch/out.json"
}
check "predicted by the figures of a file" on_cluster

bits() { trains --ranks 2 --tp 2 --deterministic && python3 -c 'import json, sys; print([x.hex() for x in json.load(open(sys.argv[1]))["losses"]])' "$scratch/out.json"; }
check "deterministic: the same bits twice" test "$(bits)" = "$(bits)"

files() {
  trains --ranks 2 --pp 2 --timeline "$scratch/measured.json" --trace "$scratch/trace.json" --metrics "$scratch/metrics.jsonl" &&
    [[ $(wc -l <"$scratch/metrics.jsonl") == 6 ]] && grep -q traceEvents "$scratch/trace.json" &&
    twinpod compare "$scratch/measured.json" "$scratch/measured.json" | grep -q "backward mlp"
}
check "timeline, trace, metrics, and compare reads them" files
ends_at() {  # ends_at STEP FLAG...
  trains --steps 40 --set training.target_loss=10 --set training.evaluate_every="$1" "${@:2}" &&
    grep -q "\"steps\": $1,\?$" "$scratch/out.json" && grep -q '"predicted_step_time_s": [0-9]' "$scratch/out.json"
}
ends_early() { ends_at 2 && ends_at 5 --timeline "$scratch/early.json" && [[ -s $scratch/early.json ]]; }
check "a run that ends early has its prediction, and the ops of a step before the 16th" ends_early

check "no data" refuses 2 "train needs data" gpt2 --ranks 1
check "a model that is not trained here" refuses 1 "mixtures of experts" mixtral-8x7b --text docs
outside='step [0-9]+: .*sample [0-9]+, position [0-9]+: token 1[0-9]+ is not in the vocabulary of 100 .*document [0-9]+'
explodes=(--learning-rate 100 --set training.clip=0 --steps 60 --set training.weight_decay=50)
not_finite='step [0-9]+: the loss is .*nan.*; samples [0-9]+ \(document [0-9]+, token [0-9]+\), .* and 5 more'
check "tokens outside the vocabulary" refuses 2 "$outside" "$job" --set model.vocab=100
# Digits with one letter, which one rank of two meets; digits with an end of document at the end of the held-out part.
printf '%02049d' 0 | sed 's/./z/500' >"$scratch/odd.txt"
printf '%02049d' 0 >"$scratch/late.txt"
check "... on one rank of two" refuses 2 "$outside" "$job" --set model.vocab=100 --ranks 2 --steps 9 --text "$scratch/odd.txt"
check "... on one of two threads" refuses 2 "$outside" "$job" --set model.vocab=100 --ranks 2 --steps 9 --threads \
  --text "$scratch/odd.txt"
check "... in the held-out part" refuses 2 "evaluation behind step 6: .*sample [0-9]+, .*token 256 is not in" "$job" \
  --set model.vocab=100 --ranks 2 --text "$scratch/late.txt"
check "a fusion that is not there" refuses 2 "--unfused atention" "$job" --unfused atention
check "a share that is dropped" refuses 2 "dropout" "$job" --dropout 1.5
check "data that is too short" refuses 1 "samples" "$job" --set training.global_batch=100000
check "a loss that is not finite" refuses 1 "$not_finite" "$job" "${explodes[@]}"
check "... on two ranks" refuses 1 "$not_finite" "$job" "${explodes[@]}" --ranks 2 --pp 2
check "metrics that cannot be written" refuses 2 "cannot be written" "$job" --ranks 2 --metrics /nowhere/metrics.jsonl
check "a timeline that cannot be written" refuses 2 "/nowhere" "$job" --ranks 2 --timeline /nowhere/timeline.json
# A run of a million steps would not come to its trace: it is refused before.
check "a trace that cannot be written" refuses 2 "--trace /nowhere" "$job" --trace /nowhere/trace.json --steps 1000000
check "... with servers" refuses 2 "--trace /nowhere" "$job" --servers 1 --workers 1 --trace /nowhere/trace.json --steps 1000000
full_disk() {  # of the metrics alone: the run goes on, and says so
  trains --metrics /dev/full && grep -q "not written: metrics from step 1 on: No space left" "$scratch/err" &&
    grep -q "Not written: metrics" "$scratch/out.json"
}
check "metrics on a full disk" full_disk
no_place() { [[ $(twinpod train "$job" --json 2>&1 >/dev/full </dev/null; echo $?) == *"cannot be written: No space left"*1 ]]; }
check "an answer that cannot be written" no_place
closed() {  # and no file gets it in the place of standard output
  ! twinpod train "$job" --metrics "$scratch/metrics.jsonl" --json >&- 2>/dev/null </dev/null &&
    [[ $(wc -l <"$scratch/metrics.jsonl") == 6 ]] && ! grep -q final_loss "$scratch/metrics.jsonl"
}
check "standard output that is closed" closed
check "a schedule that is not trained here" refuses 1 "schedule" "$job" --ranks 2 --pp 2 --schedule zb-v
check "heads that tp does not divide" refuses 1 "tp 2 does not divide heads 4, kv_heads 1 and ffn 128" "$job" --ranks 2 --tp 2 \
  --set model.attention.kv_heads=1
check "text that is too short, by its name" refuses 1 "^twinpod: $scratch/odd.txt: 2050 tokens" "$job" --text "$scratch/odd.txt" \
  --global-batch 100
twinpod data prepare "$scratch/text" -o "$scratch/tokens" >/dev/null
check "--data in the place of the job's text" same_as_alone --data "$scratch/tokens"
check "a layout that does not divide" refuses 1 "layout" "$job" --ranks 3 --tp 2
check "compare: no timeline" bash -c "! $program compare $job $job 2>/dev/null"
finish_checks
