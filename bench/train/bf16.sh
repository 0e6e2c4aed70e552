#!/usr/bin/env bash
# bf16 beside fp32: the loss curves of examples/tiny-gpt.yaml in both, step by step, for several seeds.
#
#     bench/train/bf16.sh [SEEDS [FLAG...]]     # default: 1; flags of `train`: bench/train/bf16.sh 5 --learning-rate 1e-3
#     RANKS=2 BUILD=build/release LIMIT=1 bench/train/bf16.sh
#
# Both stop at the target loss; the steps that both made are compared. Fails when the loss of any step in bf16 is more than LIMIT % from that in fp32.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
program=${BUILD:-build/release}/twinpod
seeds=${1:-1}
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -r docs src "$scratch"  # who edits a file while both train changes nothing

trains() {  # trains PRECISION SEED FLAG...
  local precision=$1 seed=$2
  shift 2
  "$program" train examples/tiny-gpt.yaml --ranks "${RANKS:-2}" --precision "$precision" --seed "$seed" \
    --text "$scratch/docs,$scratch/src" "$@" --json >"$scratch/$precision.json" </dev/null
}

row() {  # row SEED
  python3 - "$1" "$scratch" "${LIMIT:-1}" <<'END'
import json, sys
seed, folder, limit = sys.argv[1], sys.argv[2], float(sys.argv[3])
fp32, bf16 = (json.load(open(f"{folder}/{name}.json")) for name in ("fp32", "bf16"))
apart = [abs(b / a - 1) for a, b in zip(fp32["losses"], bf16["losses"])]
held_out = [abs(b["loss"] / a["loss"] - 1) for a, b in zip(fp32["evaluations"], bf16["evaluations"])]
most = max(range(len(apart)), key=apart.__getitem__)
print(f"{seed:>4}  {len(apart):>5}  {fp32['final_loss']:>10.4f}  {bf16['final_loss']:>10.4f}  {100 * max(apart):>6.2f} %  "
      f"{most + 1:>7}  {100 * sum(apart) / len(apart):>6.3f} %  {100 * max(held_out):>8.2f} %")
sys.exit(100 * max(apart) > limit)
END
}

failed=0
echo "seed  steps  fp32, final  bf16, final      max  at step      mean  held out, max"
for seed in $(seq "$seeds"); do
  trains fp32 "$seed" "$@" && trains bf16 "$seed" "$@" && row "$seed" || failed=$((failed + 1))
done
((failed == 0)) || { echo "$failed of $seeds are more than ${LIMIT:-1} % apart at some step" && exit 1; }
