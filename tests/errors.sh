#!/usr/bin/env bash
# Bad input: the exit status, and what the message must say. Messages go to standard error, and nothing to standard output.
#
#     tests/errors.sh [--program PATH]
source "$(dirname "$0")/check.bash"
if [[ ${1:-} == --program ]]; then program=$2; fi

refuses() {  # refuses STATUS TEXT... -- ARGUMENT...
  local wanted=$1 status text
  local -a texts=()
  shift
  while [[ $1 != -- ]]; do
    texts+=("$1")
    shift
  done
  shift
  twinpod "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
  status=$?
  for text in "${texts[@]}"; do
    grep -qF -- "$text" "$scratch/err" || { echo "no \`$text\` in: $(cat "$scratch/err")" && return 1; }
  done
  [[ $status == "$wanted" ]] || { echo "status $status, expected $wanted: $(cat "$scratch/err")" && return 1; }
  [[ ! -s $scratch/out ]] || { echo "standard output is not empty" && return 1; }
}

job() {  # job NAME: a job file in $scratch from standard input
  cat >"$scratch/$1.yaml"
}

gpt3=(estimate gpt3-175b --on dgx-superpod-a100-140 --devices 1024)

# The command line.
check "errors: unknown command" refuses 2 'unknown command `estimte`' 'did you mean `twinpod estimate`?' -- estimte
check "errors: unknown flag" refuses 2 'unknown flag --devcies' 'did you mean --devices?' -- estimate gpt3-175b --devcies 8
check "errors: flag without its value" refuses 2 '--tp needs a value' -- "${gpt3[@]}" --tp
check "errors: no model" refuses 2 'estimate takes one model or job file, but 0 are given' -- estimate
check "errors: two models" refuses 2 'but 2 are given' -- estimate gpt3-175b llama3-8b
check "errors: no cluster" refuses 2 'estimate needs a cluster' 'add --on CLUSTER' -- estimate gpt3-175b
check "errors: unknown model" refuses 2 'there is no model `gpt3-175`' 'gpt3-175b' -- estimate gpt3-175 --on dgx-a100
check "errors: unknown cluster" refuses 2 '--on dgx-a10' 'there is no cluster `dgx-a10`' -- estimate gpt3-175b --on dgx-a10
check "errors: unknown stack" refuses 2 'there is no stack `megatron-cor`' -- "${gpt3[@]}" --stack megatron-cor
check "errors: a word where a number belongs" refuses 2 '--tp eight' 'eight' -- "${gpt3[@]}" --tp eight
check "errors: unknown precision" refuses 2 '--precision bf61' 'bf16' -- "${gpt3[@]}" --precision bf61
check "errors: a precision that the device lacks" refuses 2 'A100-SXM4-80GB does not compute in fp8' -- "${gpt3[@]}" --precision fp8
check "errors: more devices than there are" refuses 2 '5000' '1120' -- estimate gpt3-175b --on dgx-superpod-a100-140 --devices 5000
check "errors: unknown key in --set" refuses 2 '--set layout.tpp=8' 'tp' -- "${gpt3[@]}" --set layout.tpp=8
check "errors: nothing to show" refuses 2 'nothing called `devics`' -- show devics
check "errors: unknown entry to show" refuses 2 'there is no device `h100-smx`' 'h100-sxm' -- show device h100-smx
check "errors: unknown way to group" refuses 2 '--by: found `year`' -- validate --by year
check "errors: accuracy without cross-validation" refuses 2 'add --cross-validate' -- validate --write-accuracy "$scratch/a.yaml"
check "errors: a file of runs that is not there" refuses 2 "$scratch/none.yaml" -- validate "$scratch/none.yaml"
check "errors: a catalog that is not there" refuses 2 'gpt3-175b' -- "${gpt3[@]}" --catalog "$scratch/none"

# Job files: file, line and column.
job unknown-key <<'END'
model: llama3-8b
cluster: dgx-h100
layout:
  tp: 2
  micro_bach: 1
END
check "errors: unknown key in a job" refuses 2 "$scratch/unknown-key.yaml:5:3: " 'micro_batch' -- estimate "$scratch/unknown-key.yaml"
job wrong-unit <<'END'
model: llama3-8b
cluster: {base: dgx-h100, scale_out: {bandwidth: 400 Gbyte}}
END
check "errors: unknown unit in a job" refuses 2 "$scratch/wrong-unit.yaml:2:" 'Gbyte' -- estimate "$scratch/wrong-unit.yaml"
job no-yaml <<'END'
model: [llama3-8b
END
check "errors: a job that is not YAML" refuses 2 "$scratch/no-yaml.yaml:" -- estimate "$scratch/no-yaml.yaml"
job no-model <<'END'
cluster: dgx-h100
END
check "errors: a job without a model" refuses 2 "$scratch/no-model.yaml:" 'model' -- estimate "$scratch/no-model.yaml"
check "errors: a job file that is not there" refuses 2 "$scratch/none.yaml" -- estimate "$scratch/none.yaml"
job bad-runs <<'END'
- {id: a, kind: llm_training, layers: many}
END
check "errors: a bad row of runs" refuses 2 "$scratch/bad-runs.yaml:1:" 'many' -- validate "$scratch/bad-runs.yaml"

# Jobs that are right but cannot be done: status 1, and the nearest that can.
check "errors: ranks that do not multiply out" refuses 1 'dp 4 × tp 8 × pp 3 = 96 ranks, but the cluster has 128' \
  'try pp 4 or dp 5 with 8 idle' -- estimate gpt3-175b --on dgx-superpod-a100-140 --devices 128 --dp 4 --tp 8 --pp 3
check "errors: heads that do not divide" refuses 1 'tp 5 does not divide 96 heads' 'try tp' -- \
  estimate gpt3-175b --on dgx-superpod-a100-140 --devices 1000 --tp 5
check "errors: a batch that does not divide" refuses 1 'global_batch 1000 is no multiple of dp 16' 'try global_batch 1008' -- \
  "${gpt3[@]}" --tp 8 --pp 8 --global-batch 1000
check "errors: interleaving without whole rounds" refuses 1 'rounds of pp 8' 'try global_batch 128' -- \
  "${gpt3[@]}" --tp 8 --pp 8 --vp 2 --global-batch 144
check "errors: a model that does not fit" refuses 1 'memory: stage 0 needs' 'too much; the largest part is' \
  'the nearest layout that fits:' -- "${gpt3[@]}" --tp 8 --zero 0
check "errors: too few devices" refuses 1 'no layout of 8 of these devices fits; the fewest that do: devices' -- \
  estimate gpt3-175b --on dgx-a100 --tp 8

# With --json standard output gets one object all the same.
gives_json_error() {
  ! twinpod estimate gpt3-175 --on dgx-a100 --json >"$scratch/out" 2>/dev/null && grep -q '"message": "there is no model' "$scratch/out"
}
check "errors: with --json the error is an object" gives_json_error
finish_checks
