#!/usr/bin/env bash
# Time to accuracy: examples/tiny-gpt.yaml until its target loss, on the held-out part of the data, for several seeds.
#
#     bench/train/accuracy.sh [SEEDS]          # default: 5, so 1 to 5
#     RANKS=4 BUILD=build/release LIMIT=120 bench/train/accuracy.sh
#
# Fails when a seed does not reach it in LIMIT seconds. Needs a core for each rank and nothing beside it.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
program=${BUILD:-build/release}/twinpod
ranks=${RANKS:-2}
limit=${LIMIT:-120}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

row() {  # row SEED FILE
  python3 - "$1" "$2" "$limit" <<'END'
import json, sys
seed, path, limit = sys.argv[1], sys.argv[2], float(sys.argv[3])
run = json.load(open(path))
seconds = run["time_to_target_s"]
reached = seconds is not None and seconds <= limit
print(f"{seed:>4}  {run['steps']:>5}  {'not reached' if seconds is None else f'{seconds:.1f} s':>14}  "
      f"{run['final_loss']:>10.3f}  {run['tokens_per_s']:>8.0f}")
sys.exit(not reached)
END
}

failed=0
echo "seed  steps  time to target  final loss  tokens/s"
for seed in $(seq "${1:-5}"); do
  "$program" train examples/tiny-gpt.yaml --ranks "$ranks" --seed "$seed" --json >"$scratch/run.json" </dev/null &&
    row "$seed" "$scratch/run.json" || failed=$((failed + 1))
done
((failed == 0)) && echo "all reach it within $limit s" || { echo "$failed of ${1:-5} do not reach it within $limit s" && exit 1; }
