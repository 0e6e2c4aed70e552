#!/usr/bin/env bash
# What slow workers cost, by mode: measured with real processes and simulated, side by side, against the bars of the
# parameter server. Four workers and a server train a very small job; a step takes 50 ms (they sleep), so that a busy
# machine matters little. About a minute and a half.
#
#     bench/ps/stragglers.sh [--program PATH] [--steps N] [--pace TIME]
set -euo pipefail
cd "$(dirname "$0")/../.."
program=./twinpod steps=100 pace=50ms
while (($#)); do
  case $1 in
    --program) program=$2 ;;
    --steps) steps=$2 ;;
    --pace) pace=$2 ;;
    *) echo "stragglers.sh: unknown option $1; expected --program, --steps or --pace" >&2 && exit 2 ;;
  esac
  shift 2
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/job.yaml" <<END
name: very small
model: {name: very small, layers: 1, hidden: 32, ffn: 64, vocab: 257, max_sequence: 16, attention: {heads: 2}}
data: {text: [$PWD/docs], evaluation_share: 0.02}
training: {global_batch: 4, sequence: 16, precision: fp32, learning_rate: 1e-3, evaluation_batches: 1}
END

for straggler in none 0:2 any:3:0.1; do
  "$program" study sync-async "$scratch/job.yaml" --workers 4 --servers 1 --modes sync,async,ssp:3 --pace "$pace" \
    --steps "$steps" --straggler "$straggler" --simulated-workers none --json >"$scratch/$straggler.json"
done

python3 - "$scratch" <<'END'
import json, sys

runs = {s: {m["mode"]: m for m in json.load(open(f"{sys.argv[1]}/{s}.json"))["modes"]} for s in ("none", "0:2", "any:3:0.1")}
possible = {"none": 1, "0:2": 3.5 / 4, "any:3:0.1": 1 / 1.2}  # of undisturbed, if nobody waited
words = {"none": "nobody slow", "0:2": "one always 2x slower", "any:3:0.1": "each, 1 step in 10, 3x slower"}

def share(straggler, mode, key):
    return runs[straggler][mode][key] / runs["none"][mode][key]

print(f"{'case':31}{'mode':7}{'measured':>12}{'simulated':>12}{'error':>8}{'of undisturbed':>16}{'kept':>8}{'simulated':>11}")
print(f"{'':31}{'':7}{'tokens/s':>12}{'tokens/s':>12}{'':8}{'measured':>16}{'':8}{'kept':>11}")
errors = []
for straggler in runs:
    for mode, run in runs[straggler].items():
        measured, simulated = run["tokens_per_s"], run["simulated_tokens_per_s"]
        errors.append(simulated / measured - 1)
        part = share(straggler, mode, "tokens_per_s")
        kept, kept_simulated = part / possible[straggler], share(straggler, mode, "simulated_tokens_per_s") / possible[straggler]
        print(f"{words[straggler]:31}{mode:7}{measured:12.0f}{simulated:12.0f}{errors[-1]:8.1%}{part:16.1%}{kept:8.1%}{kept_simulated:11.1%}")
print("kept: of what is possible when nobody waits (87.5 % and 83.3 % of undisturbed)\n")

failed = 0
def verdict(what, value, good):
    global failed
    failed += not good
    print(f"{'ok    ' if good else 'NOT OK'} {what}: {value:.1%}")

one, random = (lambda mode: share("0:2", mode, "tokens_per_s")), (lambda mode: share("any:3:0.1", mode, "tokens_per_s") * 1.2)
verdict("one slow: async keeps 80 % of undisturbed", one("async"), one("async") >= 0.8)
verdict("one slow: sync falls to about 50 %", one("sync"), 0.45 <= one("sync") <= 0.57)
verdict("one slow: ssp:3 with it, as its bound demands", one("ssp:3"), 0.45 <= one("ssp:3") <= 0.6)
verdict("random: ssp:3 keeps 85 % of what is possible", random("ssp:3"), random("ssp:3") >= 0.85)
verdict("random: sync keeps visibly less", random("sync"), random("sync") <= random("ssp:3") - 0.05)
worst = max(errors, key=abs)
verdict("simulated within 15 % of measured, the worst", worst, abs(worst) <= 0.15)
sys.exit(failed > 0)
END
