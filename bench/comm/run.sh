#!/usr/bin/env bash
# Our collectives beside Open MPI, gloo and what memory allows, two ranks; then 4 and 8 ranks beside Open MPI; each with
# both kinds of memory. Then how much of an all_reduce is hidden behind computing. At the end, each bar: held or missed.
#
#     bench/comm/run.sh [FOLDER]      writes FOLDER/*.json and *.txt (default build/bench-comm); under 4 minutes
cd "$(dirname "$0")/../.." || exit 1
folder=${1:-build/bench-comm}
mkdir -p "$folder"
rm -f "$folder"/*.json "$folder"/*.txt
peers=openmpi
[[ -x build/release/bench_gloo_peer ]] && peers=$peers,gloo
measure() {  # measure NAME ARGUMENT...
  ./twinpod bench comm --json --no-check --timeout 120s --verb send,all_reduce,broadcast,all_gather,reduce_scatter \
    "${@:2}" >"$folder/$1.json"
}
for memory in shared private; do
  for try in 1 2; do
    measure "2-ranks-$memory-$try" --ranks 2 --memory $memory --bytes 8..128MiB --blocks 8 --against $peers,memory || exit 1
  done
  measure "2-ranks-$memory-256MiB" --ranks 2 --memory $memory --bytes 256MiB --blocks 3 --against $peers,memory || exit 1
done
for ranks in 4 8; do
  for memory in shared private; do
    for try in 1 2; do
      measure "$ranks-ranks-$memory-$try" --ranks $ranks --memory $memory --bytes 8..64MiB --factor 8 --blocks 5 --against openmpi || exit 1
    done
  done
done
cmake --build build/release --target comm_overlap_bench >/dev/null && build/release/bench/comm_overlap_bench --benchmark_out="$folder/overlap.txt" --benchmark_out_format=json >/dev/null || exit 1
bench/comm/verdict.sh "$folder"/*.json "$folder/overlap.txt" | tee "$folder/verdict.txt"
exit "${PIPESTATUS[0]}"
