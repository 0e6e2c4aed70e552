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

# Plans: what was asked is wrong.
llama=(plan llama3-70b --on h100-superpod --devices 512)
check "errors: plan: a word where a list of numbers belongs" refuses 2 '--tp: found `eight`' 'a list 2,4,8, a range 1..64' -- \
  "${llama[@]}" --tp eight
check "errors: plan: unknown schedule" refuses 2 '--schedule: found `1f2b`' 'did you mean `1f1b`?' -- "${llama[@]}" --schedule 1f2b
check "errors: plan: a stage that ZeRO has not" refuses 2 '--zero: found `4`' 'from 0 to 3' -- "${llama[@]}" --zero 4
check "errors: plan: a switch that is neither on nor off" refuses 2 '--sequence-parallel: found `maybe`' 'on, off' -- \
  "${llama[@]}" --sp maybe
check "errors: plan: unknown objective" refuses 2 '--objective: found `tme`' 'did you mean `time`?' -- "${llama[@]}" --objective tme
check "errors: plan: two objectives" refuses 2 '--objective: one of them decides' '--pareto weighs several' -- \
  "${llama[@]}" --objective time,cost
check "errors: plan: unknown value of a Pareto set" refuses 2 '--pareto: found `speed`' 'time, cost, devices, memory' -- \
  "${llama[@]}" --pareto time,speed
check "errors: plan: unknown space" refuses 2 '--space: found `ful`' 'stack or full' -- "${llama[@]}" --space ful
check "errors: plan: more devices than there are" refuses 2 '20000' 'write at most 16384' -- \
  plan llama3-70b --on h100-superpod --devices 1024,20000
check "errors: plan: a range that falls" refuses 2 'a range that rises' 'try 8..16' -- plan llama3-70b --on h100-superpod --devices 16..8
check "errors: plan: a deadline without a unit" refuses 2 '--within: found `60`' 'did you mean 60d?' -- "${llama[@]}" --within 60
check "errors: plan: a margin in per cent without the sign" refuses 2 '--memory-margin: found `8`' 'did you mean 8%?' -- \
  "${llama[@]}" --memory-margin 8
check "errors: plan: unknown engine" refuses 2 'nothing to emit is called `megatrn`' 'did you mean `megatron`?' -- \
  "${llama[@]}" --emit megatrn
check "errors: plan: unknown thing to enlarge" refuses 2 '--largest: found `modell`' 'did you mean `model`?' -- \
  "${llama[@]}" --largest modell
check "errors: plan: unknown thing to change" refuses 2 '--what-if: found `netwrk=2x`' 'did you mean `network`?' -- \
  "${llama[@]}" --what-if netwrk=2x
check "errors: plan: a change without its factor" refuses 2 '--what-if: found `network`' 'such as network=2x' -- \
  "${llama[@]}" --what-if network
check "errors: plan: a device that is not there" refuses 2 'there is no device `h10`' 'did you mean' -- "${llama[@]}" --what-if device=h10
check "errors: plan: failures are not modelled" refuses 2 'failures are not modelled' -- "${llama[@]}" --what-if failures=0
check "errors: plan: two questions" refuses 2 '--what-if and --curve are two questions' -- "${llama[@]}" --what-if all --curve
check "errors: plan: a Pareto set of another question" refuses 2 '--pareto says nothing with --curve' -- \
  "${llama[@]}" --curve --pareto time,memory
check "errors: plan: a threshold without its curve" refuses 2 '--threshold says nothing without --curve' -- \
  "${llama[@]}" --threshold 0.9
check "errors: plan: a question that has no CSV" refuses 2 '--csv prints a ranking, and --curve has none' -- "${llama[@]}" --curve --csv
check "errors: plan: a launch for two clusters" refuses 2 '--emit is for one cluster, but --on names 2' -- \
  plan llama3-70b --on dgx-h100,dgx-a100 --emit megatron
check "errors: plan: a comma too many" refuses 2 'a name is missing beside a comma' -- plan llama3-70b --on dgx-h100,
check "errors: plan: one of two clusters is unknown" refuses 2 'there is no cluster `dgx-h10`' -- plan llama3-70b --on dgx-a100,dgx-h10
check "errors: plan: no model" refuses 2 'plan takes one model or job file, but 0 are given' -- plan

# Plans that cannot be: status 1, and what to loosen.
check "errors: plan: wishes that nothing divides" refuses 1 'no layout divides 512 devices, 80 layers, 64 heads' \
  'without --tp 5 there are' -- "${llama[@]}" --tp 5 --schedule 1f1b
check "errors: plan: two wishes that exclude each other" refuses 1 'without --zero 3 there are' 'without --servers 4 there are' -- \
  "${llama[@]}" --servers 4 --zero 3
check "errors: plan: a deadline that more devices would meet" refuses 1 'no layout that fits ends within 20.0 d: the fastest takes' \
  '1,024 devices would do' -- "${llama[@]}" --within 20d
check "errors: plan: a deadline that nothing meets" refuses 1 'no layout that fits ends within' 'try a longer --within' -- \
  "${llama[@]}" --within 1s
check "errors: plan: too few devices" refuses 1 'nothing fits on 8 A100-SXM4-80GB' 'too much' 'the fewest devices that do: 40' -- \
  plan gpt3-175b --on dgx-a100
check "errors: plan: a setting would make it fit" refuses 1 'nothing fits on 8 H100-SXM5-80GB' \
  'with the optimizer on the host' 'the fewest devices that do: 16' -- plan llama3-70b --on dgx-h100
check "errors: plan: an engine that cannot run the model" refuses 1 'emit torchtitan' -- \
  plan gpt3-175b --on dgx-superpod-a100-140 --emit torchtitan

# With --json standard output gets one object all the same.
gives_json_error() {
  ! twinpod estimate gpt3-175 --on dgx-a100 --json >"$scratch/out" 2>/dev/null && grep -q '"message": "there is no model' "$scratch/out"
}
check "errors: with --json the error is an object" gives_json_error

# Graphs and schedules.
job apart <<'END_OF_JOB'
name: apart
device: h100-sxm
devices_per_node: 1
scale_out: {bandwidth: 25 GB/s}
devices: 2
topology:
  fabric: custom
  vertices: [{name: gpu, tier: device, count: 2}, {name: sw, tier: leaf, radix: 2}]
  links: [{from: gpu0, to: sw, bandwidth: 25 GB/s}]
END_OF_JOB
check "errors: a graph without a route" refuses 2 'gpu1' -- topology "$scratch/apart.yaml"
job crowded <<'END_OF_JOB'
name: crowded
device: h100-sxm
devices_per_node: 1
scale_out: {bandwidth: 25 GB/s}
devices: 4
topology:
  fabric: custom
  vertices: [{name: gpu, tier: device, count: 4}, {name: sw, tier: leaf, radix: 3}]
  links: [{from: gpu, to: sw, bandwidth: 25 GB/s}]
END_OF_JOB
check "errors: a switch with too few ports" refuses 2 'sw' 'ports' -- topology "$scratch/crowded.yaml"
printf '<system version="1">\n  <cpu numaid="0">\n' >"$scratch/broken.xml"
check "errors: a malformed topology" refuses 2 "$scratch/broken.xml:" -- topology "$scratch/broken.xml"
printf '<algo name="a" ngpus="2">\n  <gpu id="0">\n' >"$scratch/algo.xml"
check "errors: a malformed schedule" refuses 2 "$scratch/algo.xml:" -- collective all_reduce --on dgx-a100 --schedule "$scratch/algo.xml"
check "errors: an unknown link" refuses 2 'leaf99' -- topology dgx-superpod-a100-140 --cut leaf99-spine0
check "errors: an unknown verb" refuses 2 'all_redcue' 'all_reduce' -- collective all_redcue --on dgx-a100
check "errors: more ranks than devices" refuses 2 'need 9 devices' '--ranks 8' -- collective all_reduce --on dgx-a100 --ranks 9

finish_checks
