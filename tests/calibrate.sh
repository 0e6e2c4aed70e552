#!/usr/bin/env bash
# calibrate finds out what is different about a cluster. The cluster is made up: its logs come from estimates with the numbers
# of examples/calibrate/true-cluster.yaml, with scatter, slow first steps and outliers.
#
#     tests/calibrate.sh             check
#     tests/calibrate.sh --update    write examples/calibrate/*.log and *.jsonl again
#     tests/calibrate.sh --program PATH [--update]
source "$(dirname "$0")/check.bash"
read_options "$@"
examples=examples/calibrate
truth=$examples/true-cluster.yaml

# ---- Logs

value_of() {  # value_of KEY FILE: the first number of that name in a JSON object
  sed -n "s/^ *\"$1\": \([-+0-9.eE]*\),*$/\1/p" "$2" | head -n 1
}

truth_of() {  # truth_of JOB [STACK]: what the made-up cluster does
  twinpod estimate "$1" --stack "${2:-$truth}" --json >"$scratch/truth.json"
}

# Steps 1 to 20 of a run, in seconds: scatter of half a per cent, a slow start, and a checkpoint now and then.
steps() {  # steps SECONDS
  awk -v s="$1" 'BEGIN {
    for (i = 1; i <= 20; ++i) {
      t = s * (1 + 0.005 * sin(12.9898 * i))
      if (i == 1) t *= 6
      if (i == 2) t *= 1.4
      if (i == 11 || i == 17) t *= 2.5
      printf "%d %.6f\n", i, t
    }
  }'
}

megatron_log() {  # megatron_log JOB BATCH
  truth_of "$1"
  steps "$(value_of step_time_s "$scratch/truth.json")" | awk -v batch="$2" -v parts="$(memory_parts)" '
    BEGIN { split(parts, memory, " "); mib = 1024 * 1024 }
    {
      seconds += $2
      n = 10 * $1
      printf " [2025-06-03 %02d:%02d:%02d] iteration %8d/%8d | consumed samples: %12d |", 10 + int(seconds / 360), int(seconds / 6) % 60,
        int(seconds * 10) % 60, n, 200, n * batch
      printf " elapsed time per iteration (ms): %.1f | learning rate: %.6E | global batch size: %5d |", 1000 * $2, 3e-6 * $1, batch
      printf " lm loss: %.6E | loss scale: 1.0 | grad norm: %.3f |", 11 / (1 + 0.05 * $1), 4 / $1
      print " number of skipped iterations:   0 | number of nan iterations:   0 |"
      if ($1 == 1 && memory[3] == 1)
        printf "[Rank 0] (after %d iterations) memory (MB) | allocated: %s | max allocated: %s | reserved: %s | max reserved: %s\n", n,
          memory[1] / 2 / mib, memory[1] / mib, memory[2] / mib, memory[2] / mib
    }' OFMT=%.4f CONVFMT=%.4f
}

memory_parts() {  # allocated and reserved bytes, and the number of stages
  local total cache runtime
  total=$(value_of memory_bytes "$scratch/truth.json")
  cache=$(value_of cache "$scratch/truth.json")
  runtime=$(value_of runtime "$scratch/truth.json")
  awk -v t="$total" -v c="$cache" -v r="$runtime" -v pp="$(value_of pp "$scratch/truth.json")" \
    'BEGIN { printf "%.0f %.0f %d", t - c - r, t - r, pp }'
}

json_log() {  # json_log JOB
  truth_of "$1"
  steps "$(value_of step_time_s "$scratch/truth.json")" | awk -v bytes="$(value_of memory_bytes "$scratch/truth.json")" \
    '{ printf "{\"step\": %d, \"step_time_s\": %.4f, \"loss\": %.4f, \"memory_bytes\": %.0f}\n", $1, $2, 11 / (1 + 0.05 * $1), bytes }'
}

torchtitan_log() {  # torchtitan_log JOB: another stack, with a pace of its own
  cat >"$scratch/other.yaml" <<<'{base: torchtitan, parameters: {pace: 1.3}}'
  truth_of "$1" "$scratch/other.yaml"
  steps "$(value_of step_time_s "$scratch/truth.json")" | awk -v parts="$(memory_parts)" \
    -v devices="$(value_of devices "$scratch/truth.json")" -v batch="$(value_of global_batch "$scratch/truth.json")" \
    -v sequence="$(value_of sequence "$scratch/truth.json")" '
    function thousands(n,   t) {
      for (t = ""; n >= 1000; n = int(n / 1000)) t = sprintf(",%03d%s", n % 1000, t)
      return n t
    }
    BEGIN { split(parts, memory, " "); gib = memory[2] / 1024 / 1024 / 1024 }
    {
      printf "[rank0]:[titan] 2025-06-03 10:%02d:%02d,%03d - root - INFO - ", $1 / 2, $1 * 30 % 60, $1 * 37 % 1000
      printf "\033[31mstep: %2d  \033[32mloss: %7.4f  \033[38;2;180;60;0mgrad_norm: %7.4f  ", $1, 11 / (1 + 0.05 * $1), 4 / $1
      printf "\033[36mmemory: %5.2fGiB(%.2f%%)  \033[34mtps: %s  ", gib, gib / 0.8, thousands(int(batch * sequence / $2 / devices + 0.5))
      printf "\033[35mmfu: %.2f%%\033[39m\n", 30
    }'
}

write_logs() {  # write_logs FOLDER
  megatron_log $examples/llama3-8b-16.yaml 128 >"$1/llama3-8b-16.log"
  megatron_log $examples/llama3-8b-128.yaml 64 >"$1/llama3-8b-128.log"
  megatron_log $examples/llama3-70b-256.yaml 256 >"$1/llama3-70b-256.log"
  json_log $examples/llama3-70b-long.yaml >"$1/llama3-70b-long.jsonl"
  torchtitan_log $examples/llama3-8b-fsdp.yaml >"$1/llama3-8b-fsdp.log"
}

if [[ $update ]]; then
  write_logs $examples
  echo "wrote $examples/*.log and *.jsonl"
  exit 0
fi

# ---- Checks

within() {  # within LOW VALUE HIGH
  awk -v low="$1" -v value="$2" -v high="$3" 'BEGIN { exit !(value != "" && low <= value && value <= high) }' || {
    echo "found \`$2\`, expected $1 to $3"
    return 1
  }
}

refuses() {  # refuses STATUS TEXT... -- ARGUMENT...
  local wanted=$1 status text
  local -a texts=()
  shift
  while [[ $1 != -- ]]; do
    texts+=("$1")
    shift
  done
  shift
  twinpod calibrate "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
  status=$?
  for text in "${texts[@]}"; do
    grep -qF -- "$text" "$scratch/err" || { echo "no \`$text\` in: $(cat "$scratch/err")" && return 1; }
  done
  [[ $status == "$wanted" ]] || { echo "status $status, expected $wanted: $(cat "$scratch/err")" && return 1; }
}

logs=$scratch/logs
mkdir "$logs"
write_logs "$logs"
three=("$logs/llama3-8b-16.log=$examples/llama3-8b-16.yaml" "$logs/llama3-8b-128.log=$examples/llama3-8b-128.yaml"
  "$logs/llama3-70b-256.log=$examples/llama3-70b-256.yaml")
mine=$scratch/my-cluster.yaml

# Three logs that differ: what is different about the cluster is found.
twinpod calibrate "${three[@]}" -o "$mine" >"$scratch/text" 2>&1
check "calibrate: writes a stack" test -s "$mine"
check "calibrate: shows a line for each log" test "$(grep -cE '^llama3-.*log +16 +[0-9.]+ m?s ' "$scratch/text")" == 3
check "calibrate: says where the stack went" grep -qF "wrote $mine" "$scratch/text"
twinpod calibrate "${three[@]}" --json >"$scratch/three.json" 2>"$scratch/err"
found() { value_of "$1" "$scratch/three.json"; }
check "calibrate: finds the pace" within 1.17 "$(found pace)" 1.23
check "calibrate: finds the network's efficiency" within 0.45 "$(found scale_out_efficiency)" 0.56
check "calibrate: the error was large before" within 0.1 "$(found median_error_before)" 0.5
check "calibrate: the error is small after" within 0 "$(found median_error_after)" 0.01
check "calibrate: three jobs show the error on an unseen one" within 0 "$(found median_error_unseen)" 0.15
check "calibrate: finds the allocator's share" within 0.07 "$(found reserve)" 0.09

# The fitted stack predicts a job whose log was never shown.
step_with() {  # step_with STACK
  twinpod estimate $examples/llama3-70b-long.yaml --stack "$1" --json >"$scratch/estimate.json" && value_of step_time_s "$scratch/estimate.json"
}
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { print a / b }'; }
check "calibrate: estimate takes the fitted stack, and is right about another layout" within 0.97 \
  "$(ratio "$(step_with "$mine")" "$(step_with $truth)")" 1.03

# One log is enough for a pace.
twinpod calibrate "$logs/llama3-8b-fsdp.log=$examples/llama3-8b-fsdp.yaml" --json >"$scratch/three.json" 2>"$scratch/err"
check "calibrate: one log of torchtitan gives the pace" within 1.27 "$(found pace)" 1.33
check "calibrate: one log gives nothing but the pace" test -z "$(sed -n '/"parameters"/,/}/p' "$scratch/three.json" | grep -v pace | grep ': [0-9]')"
check "calibrate: one log says nothing about others" grep -q '"median_error_unseen": null' "$scratch/three.json"
twinpod calibrate "$logs/llama3-8b-16.log" --job $examples/llama3-8b-16.yaml --stack megatron-core-2024 >"$scratch/text" 2>&1
check "calibrate: --job goes with every log" grep -q '^base: megatron-core-2024$' "$scratch/text"
twinpod calibrate "$logs/llama3-70b-long.jsonl=$examples/llama3-70b-long.yaml" --json >"$scratch/three.json" 2>"$scratch/err"
check "calibrate: memory that the driver counts gives the runtime" within 2.2e9 "$(found runtime_bytes)" 4.5e9

# The logs that come with the repository.
static=("$examples/llama3-8b-16.log=$examples/llama3-8b-16.yaml" "$examples/llama3-8b-128.log=$examples/llama3-8b-128.yaml"
  "$examples/llama3-70b-256.log=$examples/llama3-70b-256.yaml" "$examples/llama3-70b-long.jsonl=$examples/llama3-70b-long.yaml")
twinpod calibrate "${static[@]}" --json >"$scratch/three.json" 2>"$scratch/err"
check "calibrate: the examples' error falls" within 0 "$(found median_error_after)" 0.05

# A stack that stands on a stack of the user's own, from another folder.
mkdir "$scratch/there"
twinpod calibrate "${three[@]}" --stack "$(realpath --relative-to=. "$mine")" -o "$scratch/there/second.yaml" >"$scratch/text" 2>&1
check "calibrate: a fitted stack can be the base of another" grep -q '^base: "../my-cluster.yaml"$' "$scratch/there/second.yaml"
check "calibrate: estimate finds that base" within 0.9 "$(ratio "$(step_with "$scratch/there/second.yaml")" "$(step_with $truth)")" 1.1

# What is refused.
job=$examples/llama3-8b-16.yaml
echo "nothing of interest" >"$scratch/empty.log"
printf ' iteration       10/     200 | elapsed time per iteration (ms): 12x4.5 | global batch size:   128 |\n' >"$scratch/bad.log"
printf '{"step": 1, "step_time_s": "fast"}\n' >"$scratch/bad.jsonl"
printf 'model: llama3-8b\ncluster: h100-superpod\ndevices: 16\nstack: {base: torchtitan, launches: 20}\n' >"$scratch/written-out.yaml"
printf 'model: llama3-8b\ncluster: h100-superpod\ndevices: 16\nlayout: {tp: 3}\n' >"$scratch/impossible.yaml"
sed 's/h100-superpod/dgx-superpod-a100-140/' $job >"$scratch/a100.yaml"
check "calibrate: no log" refuses 2 'calibrate needs a log' --
check "calibrate: a log without a job" refuses 2 'has no job' '--job JOB.yaml' -- "$logs/llama3-8b-16.log"
check "calibrate: a log that is not there, and the nearest" refuses 2 'llama3-8b-61.log' 'did you mean llama3-8b-16.log?' -- "$logs/llama3-8b-61.log=$job"
check "calibrate: a job that is not there" refuses 2 'none.yaml' -- "$logs/llama3-8b-16.log=$scratch/none.yaml"
check "calibrate: a log without steps" refuses 2 "$scratch/empty.log:1" 'there is no training step' 'elapsed time per iteration' -- "$scratch/empty.log=$job"
check "calibrate: a bad number of Megatron" refuses 2 "$scratch/bad.log:1:65: " '12x4.5' -- "$scratch/bad.log=$job"
check "calibrate: a bad number in JSON" refuses 2 "$scratch/bad.jsonl:1:" 'step_time_s: found `"fast"`' -- "$scratch/bad.jsonl=$job"
check "calibrate: a log of another batch" refuses 2 'global batch size is 128 here, but 64 in the job' -- "$logs/llama3-8b-16.log=$examples/llama3-8b-128.yaml"
check "calibrate: an unknown stack, and the nearest" refuses 2 'there is no stack `torchtitn`' 'torchtitan' -- "${three[@]}" --stack torchtitn
check "calibrate: two stacks" refuses 2 'but' '--stack NAME' -- "${three[0]}" "$logs/llama3-8b-fsdp.log=$examples/llama3-8b-fsdp.yaml"
check "calibrate: two kinds of device" refuses 2 'one kind of device' -- "${three[0]}" "$logs/llama3-8b-16.log=$scratch/a100.yaml"
check "calibrate: a stack without a name" refuses 2 "$scratch/written-out.yaml:4:" '--stack FILE' -- "$logs/llama3-8b-fsdp.log=$scratch/written-out.yaml"
check "calibrate: a job that cannot be" refuses 1 'tp 3' -- "$logs/llama3-8b-fsdp.log=$scratch/impossible.yaml"
check "calibrate: an input as output" refuses 2 'would overwrite' -- "${three[@]}" -o "$logs/llama3-8b-16.log"
check "calibrate: an output that no reader takes" refuses 2 '.yaml' -- "${three[@]}" -o "$scratch/stack.txt"
check "calibrate: an unknown flag, and the nearest" refuses 2 'did you mean --output?' -- "${three[@]}" --ouput x.yaml
finish_checks
