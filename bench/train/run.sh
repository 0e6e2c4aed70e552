#!/usr/bin/env bash
# Training steps beside PyTorch's: the same model, batch and threads, in turn, the best of several.
#
#     bench/train/run.sh [ROUNDS [SHAPE...]]      # default: 3 rounds, shapes A and B of train_step_bench
#
# TWINPOD_TORCH names a folder with PyTorch in a virtual environment, which is made when it is not there; without it,
# one is made in a temporary folder and removed in the end. Needs an idle machine with two cores.
source "$(dirname "$0")/begin.bash"
source bench/train/torch_env.bash
rounds=${1:-3}
shift
shapes=("${@:-A}")
if (($# == 0)); then shapes=(A B); fi
torch=${TWINPOD_TORCH:-$scratch/torch}
install_torch "$torch" || { echo "PyTorch cannot be installed here" >&2 && exit 1; }

arguments_of() {  # arguments_of SHAPE
  case $1 in
    A) echo --layers 6 --hidden 384 --heads 6 --sequence 256 --vocab 4096 --micro-batch 8 ;;
    *) echo --layers 12 --hidden 768 --heads 12 --sequence 512 --vocab 50304 --micro-batch 2 --steps 3 --warm-up 1 ;;
  esac
}

# PyTorch in each way that may be its best.
measure_torch() {  # measure_torch SHAPE RANKS WAY
  local arguments malloc=
  read -ra arguments < <(arguments_of "$1")
  if [[ $3 != as_it_is ]]; then malloc=$torch_malloc; fi
  if [[ $3 == compiled ]]; then arguments+=(--compile); fi
  GLIBC_TUNABLES=$malloc "$torch/bin/python" bench/train/torch_step.py "${arguments[@]}" --ranks "$2"
}

# Before each of its ways ours, so that both have as many steps of which the best counts.
for ((round = 0; round < rounds; ++round)); do
  for shape in "${shapes[@]}"; do
    for way in as_it_is memory_kept compiled; do
      "$ours" --shape "$shape" --rounds 1 --no-peak --json >>"$scratch/ours.$shape" || exit 1
      for ranks in 1 2; do measure_torch "$shape" $ranks $way >>"$scratch/torch.$shape" 2>>"$scratch/errors"; done
    done
  done
done

"$torch/bin/python" - "$scratch" "${shapes[@]}" <<'END_OF_TABLE'
import json, sys
folder, *shapes = sys.argv[1:]
lines = lambda name: [json.loads(line) for line in open(f"{folder}/{name}") if line.startswith("{")]
print(f"{'shape':<8}{'ranks':>6}{'ours, tokens/s':>16}{'PyTorch':>10}{'ratio':>8}   PyTorch's best")
for shape in shapes:
    ours = [row for line in lines(f"ours.{shape}") for row in line["rows"]]
    torch = lines(f"torch.{shape}")
    for ranks in (1, 2):
        rate = max(row["tokens_per_s"] for row in ours if row["ranks"] == ranks)
        other = max((row for row in torch if row["ranks"] == ranks), key=lambda row: row["tokens_per_s"])
        how = f"{other['torch']}{', compiled' if other['compiled'] else ''}, {other['instructions']}"
        print(f"{shape:<8}{ranks:>6}{rate:>16.0f}{other['tokens_per_s']:>10.0f}{rate / other['tokens_per_s']:>8.2f}   {how}")
END_OF_TABLE
