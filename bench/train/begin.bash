# Sourced first by what measures training steps: the folder, our bench ($ours) and a $scratch that goes with the script.
#
#     source "$(dirname "$0")/begin.bash"
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
ours=build/release/bench/train_step_bench
if [[ ! -x $ours ]]; then
  echo "to do: cmake --preset release && cmake --build build/release --target train_step_bench" >&2
  exit 1
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
