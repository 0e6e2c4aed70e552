#!/usr/bin/env bash
# Damaged files for every reader, each given to the command that reads it: no crash, no hang, no memory without bound, no
# answer with a number that is none (tests/attack.cpp). Files that failed stay in build/mutate.
#
#     tests/mutate.sh [--program PATH] [--all | --count N] [--seed N] [--only NAME]
source "$(dirname "$0")/check.bash"
count=700 seed=1 only=
while (($#)); do
  case $1 in
    --program) program=$2 && shift ;;
    --all) count=100000 ;;
    --count) count=$2 && shift ;;
    --seed) seed=$2 && shift ;;
    --only) only=$2 && shift ;;
    *) echo "usage: $0 [--program PATH] [--all | --count N] [--seed N] [--only NAME]" >&2 && exit 2 ;;
  esac
  shift
done
attack=${TWINPOD_ATTACK:-build/release/twinpod_attack}
root=$PWD
seeds=$scratch/seeds
mkdir -p "$seeds/text" "$scratch/tmp"
made=()

make_seed() {  # make_seed FILE COMMAND...: a file that the program writes
  twinpod "${@:2}" >"$scratch/made" 2>&1 </dev/null
  [[ -s $1 ]] && return
  echo "no ${1##*/}: $(cat "$scratch/made")"
  made+=("$1")
}

head -c 4000 docs/jobs.md >"$seeds/text/a.md"
cat >"$seeds/small.yaml" <<END
name: small
model: {name: small, layers: 2, hidden: 32, ffn: 64, vocab: 257, max_sequence: 16, attention: {heads: 2}}
cluster:
  name: cores
  devices: 2
  device: {name: core, family: cpu, peak: {fp32: 1e11, bf16: 1e11}, memory: 200 MB, memory_bandwidth: 1e10}
  node: {devices: 2, scale_up: {kind: switched, bandwidth: 1e10}}
data: {text: [$seeds/text], evaluation_share: 0.1}
layout: {tp: 1, pp: 1, micro_batch: 2, zero: 1}
training: {global_batch: 8, sequence: 16, precision: fp32, steps: 2, learning_rate: 1e-3, evaluation_batches: 1}
END
cat >"$seeds/pair.yaml" <<END
name: pair
model: {layers: 8, hidden: 1024, vocab: 50257, max_sequence: 1024, attention: {heads: 16, kv_heads: 4}, moe: {experts: 8, active: 2}}
cluster:
  name: pair
  devices: 32
  device: a100-80gb
  node: {devices: 8, scale_up: {kind: switched, bandwidth: 300 GB/s, latency: 2 us}}
  scale_out: {bandwidth: 25 GB/s, latency: 5 us}
  topology: {fabric: fat_tree, radix: 16}
layout: {tp: 2, pp: 2, micro_batch: 1, virtual_stages: 2, schedule: interleaved, recompute: selective}
training: {global_batch: 64, sequence: 1024, precision: bf16, optimizer: adam, tokens: 1 B}
checkpoint: {every: 100}
END
cat >"$seeds/config.json" <<'END'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816,
 "num_attention_heads": 16, "num_hidden_layers": 8, "num_key_value_heads": 8, "hidden_act": "silu", "rms_norm_eps": 1e-05,
 "max_position_embeddings": 2048, "tie_word_embeddings": false, "vocab_size": 32000, "torch_dtype": "bfloat16",
 "rope_theta": 10000.0, "rope_scaling": null, "_name_or_path": "small-llama"}
END
cat >"$seeds/moe.json" <<'END'
{"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_size": 1024, "intermediate_size": 3584,
 "num_attention_heads": 16, "num_hidden_layers": 8, "num_key_value_heads": 8, "num_local_experts": 8,
 "num_experts_per_tok": 2, "max_position_embeddings": 4096, "vocab_size": 32000, "hidden_act": "silu", "sliding_window": null}
END
cat >"$seeds/system.xml" <<'END'
<system version="1">
  <cpu numaid="0" affinity="ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:00:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:01:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0000:02:00.0" count="4" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1"><nvlink target="0000:01:00.0" count="4" tclass="0x030200"/></gpu>
      </pci>
      <nic><net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1" maxconn="131072" gdr="1"/></nic>
    </pci>
  </cpu>
  <cpu numaid="1" vendor="AuthenticAMD"><pci busid="0000:05:00.0"><gpu dev="2" sm="90"/></pci></cpu>
</system>
END
cat >"$seeds/mine.csv" <<'END'
stage,order,phase,micro_batch,chunk
0,0,F,0,0
0,1,F,1,0
0,2,B,0,0
0,3,B,1,0
1,0,F,0,0
1,1,B,0,0
1,2,F,1,0
1,3,B,1,0
END
head -60 catalog/measured/collectives.csv >"$seeds/runs.csv"
head -60 catalog/measured/gemm.csv >"$seeds/gemm.csv"
small=$seeds/small.yaml
model=(estimate gpt3-1.3b --on dgx-a100)
make_seed "$seeds/predicted.json" simulate "$small" --timeline "$seeds/predicted.json"
make_seed "$seeds/traces/comm_group.json" simulate "$small" --dp 2 --chakra "$seeds/traces" --all-ranks
make_seed "$seeds/ring.xml" collective all_reduce --on dgx-a100 --ranks 4 --algorithm ring --bytes 1M --export "$seeds/ring.xml"
make_seed "$seeds/tokens.idx" data prepare "$seeds/text" -o "$seeds/tokens"
make_seed "$seeds/store/latest" train "$small" --store "$seeds/store"
make_seed "$seeds/weights.safetensors" checkpoint export "$seeds/store" -o "$seeds/weights.safetensors"
make_seed "$seeds/failure.json" bench comm --ranks 2 --blocks 1 --iterations 1 --fault kill:1@3 --bytes 8 --timeout 1s \
  --verb all_reduce --recording "$seeds/failure.json"
check "mutate: the program makes files to damage" test ${#made[@]} = 0
checkpoint=$(ls -d "$seeds"/store/checkpoint-* | head -1)
checkpoint=${checkpoint#"$seeds/store/"}
trace=$(cd "$seeds/traces" && ls *.et | head -1)

cases=$scratch/cases
add() {  # add NAME FOLDER FILE WORD...
  if [[ -n $only && $1 != $only* ]]; then return; fi
  if [[ ! -s $3 && ! -s $2/$3 ]]; then echo "no $2/$3" && return 1; fi
  (IFS=$'\t' && echo "$*") >>"$cases"
}

for job in "$small" "$seeds/pair.yaml" "$root"/examples/*.yaml; do
  of=$(basename "$job" .yaml)
  add "job-$of" - "$job" estimate @
  add "job-$of-explain" - "$job" estimate @ --explain --stages
done
for job in "$small" "$seeds/pair.yaml" "$root/examples/tiny-gpt.yaml"; do
  of=$(basename "$job" .yaml)
  on=()
  if [[ $of == tiny-gpt ]]; then on=(--on dgx-a100); fi
  add "plan-$of" - "$job" plan @ "${on[@]}"
  add "program-$of" - "$job" program @ "${on[@]}"
  add "simulate-$of" - "$job" simulate @ "${on[@]}"
  add "emit-$of" - "$job" plan @ "${on[@]}" --emit megatron
done
add config-llama - "$seeds/config.json" estimate @ --on dgx-a100 --zero 1
add config-moe - "$seeds/moe.json" estimate @ --on dgx-h100 --ep 8
add config-plan - "$seeds/config.json" plan @ --on dgx-a100
for kind in devices:a100-80gb nodes:dgx-a100 clusters:dgx-a100 models:llama3-8b stacks:megatron-core-2024 links:nvlink3; do
  file=$(ls "$root/catalog/${kind%:*}/${kind#*:}".yaml 2>/dev/null || ls "$root/catalog/${kind%:*}"/*.yaml | head -1)
  name=$(basename "$file" .yaml)
  case ${kind%:*} in
    models) add catalog-model "$root/catalog" "models/$name.yaml" estimate "$name" --on dgx-a100 --tp 8 --catalog @ ;;
    clusters) add catalog-cluster "$root/catalog" "clusters/$name.yaml" topology "$name" --catalog @ &&
      add catalog-cluster-time "$root/catalog" "clusters/$name.yaml" "${model[@]:0:2}" --on "$name" --catalog @ ;;
    stacks) add catalog-stack "$root/catalog" "stacks/$name.yaml" "${model[@]}" --stack "$name" --catalog @ ;;
    *) add "catalog-${kind%:*}" "$root/catalog" "${kind%:*}/$name.yaml" "${model[@]}" --catalog @ ;;
  esac
done
for file in parameters.yaml accuracy.yaml; do add "catalog-$file" "$root/catalog" "$file" "${model[@]}" --catalog @; done
add catalog-collectives "$root/catalog" collectives.yaml collective all_reduce --on dgx-a100 --bytes 1K..1G --catalog @
add catalog-gemm "$root/catalog" gemm.yaml "${model[@]}" --catalog @
add topology-xml - "$seeds/system.xml" topology @ --routes 0,1
add topology-xml-collective - "$seeds/system.xml" collective all_reduce --on @ --bytes 1M
add msccl - "$seeds/ring.xml" collective all_reduce --on dgx-a100 --bytes 1M --schedule @
add timeline - "$seeds/predicted.json" compare @ "$seeds/predicted.json"
add timeline-measured - "$seeds/predicted.json" compare "$seeds/predicted.json" @
add chakra "$seeds/traces" "$trace" simulate --workload @ --on dgx-a100
add chakra-groups "$seeds/traces" comm_group.json simulate --workload @ --on dgx-a100
add recording - "$seeds/failure.json" doctor @
for log in "$root"/examples/calibrate/*.{log,jsonl}; do
  add "log-$(basename "$log")" - "$log" calibrate "@=${log%.*}.yaml"
done
add tokens-index "$seeds" tokens.idx data show @/tokens --check
add tokens-values "$seeds" tokens.bin data show @/tokens --check
for file in manifest.json $(cd "$seeds/store/$checkpoint" && ls | grep -v manifest | head -1); do
  for verb in ls verify show diff; do
    other=()
    if [[ $verb == diff ]]; then other=("$seeds/store"); fi
    add "store-$verb" "$seeds/store" "$checkpoint/$file" checkpoint "$verb" @ "${other[@]}"
  done
  add store-tensor "$seeds/store" "$checkpoint/$file" checkpoint show @ --tensor embedding.tokens
  add store-export "$seeds/store" "$checkpoint/$file" checkpoint export @ -o out.safetensors --force
done
add store-latest "$seeds/store" latest checkpoint ls @
add store-resume "$seeds/store" "$checkpoint/manifest.json" train "$small" --resume @ --steps 3
add safetensors - "$seeds/weights.safetensors" checkpoint import @ -o "$scratch/imported"
add safetensors-show - "$seeds/weights.safetensors" checkpoint show @
add schedule - "$seeds/mine.csv" program gpt3-1.3b --on dgx-a100 --pp 2 --devices 2 --global-batch 2 --micro-batch 1 --schedule @
add measured-collectives - "$seeds/runs.csv" validate --collectives @
add measured-gemm - "$seeds/gemm.csv" validate --gemm @
add train-job - "$small" train @ --ranks 2

[[ -s $cases ]] || exit 2
check "mutate: $count damaged files for $(wc -l <"$cases") readers do no harm" env TMPDIR="$scratch/tmp" \
  "$attack" mutate "$cases" "$count" "$seed" build/mutate
finish_checks
