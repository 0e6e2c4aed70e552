#!/usr/bin/env bash
# Our collectives beside Open MPI and gloo, two ranks, both kinds of memory; then 4 and 8 ranks beside Open MPI.
#
#     bench/comm/run.sh [FOLDER]      writes FOLDER/*.txt (default build/bench-comm)
cd "$(dirname "$0")/../.." || exit 1
folder=${1:-build/bench-comm}
mkdir -p "$folder"
verbs=send,all_reduce,broadcast,all_gather,reduce_scatter
for memory in shared private; do
  ./twinpod bench comm --ranks 2 --memory $memory --verb $verbs --bytes 8..256MiB --factor 2 --against openmpi,gloo \
    --blocks 25 --no-check --timeout 120s >"$folder/2-ranks-$memory.txt" || exit 1
done
for ranks in 4 8; do
  ./twinpod bench comm --ranks $ranks --verb $verbs --bytes 8..64MiB --against openmpi --no-check --timeout 120s \
    >"$folder/$ranks-ranks.txt" || exit 1
done
tail -n +1 "$folder"/*.txt
