#!/usr/bin/env bash
# Collectives between processes: exact for every verb, way, type and operation, over shared memory and over MPI; what the
# commands print and refuse. The unit tests do the same with threads, for more sizes.
#
#     tests/comm.sh             a part that takes some seconds
#     tests/comm.sh --all       rank counts 1 to 9, 16, 17 and 31, all types: some minutes
#     tests/comm.sh --program PATH
source "$(dirname "$0")/check.bash"
all=
if [[ ${1:-} == --all ]]; then
  all=yes
  shift
fi
read_options "$@"
out=$scratch/out
err=$scratch/err

bench() { twinpod bench comm --timeout 60s --blocks 1 --iterations 1 --warmup 0 --recording "$scratch/failure.json" "$@" >"$out" 2>"$err"; }

# All rows are right, and there are some.
exact() {  # exact ARGUMENT...
  bench --json "$@" || { cat "$err" && return 1; }
  local rows right
  rows=$(grep -c '"verb":' "$out")
  right=$(grep -c '"wrong": 0,' "$out")
  ((rows > 0 && rows == right)) || { echo "$right of $rows rows are right: $*" && return 1; }
  reaches_large
}

# The sizes are what they are meant to be, so that nobody believes in a check that was not made.
reaches_large() {
  local largest
  largest=$(sed -n 's/^ *"bytes": \([0-9]*\),$/\1/p' "$out" | sort -n | tail -n 1)
  ((largest >= largest_bytes)) || { echo "the largest size is $largest" && return 1; }
}

refuses() {  # refuses STATUS TEXT ARGUMENT...
  local wanted=$1 text=$2 status
  shift 2
  twinpod "$@" >"$out" 2>"$err"
  status=$?
  grep -qF -- "$text" "$err" || { echo "no \`$text\` in: $(cat "$err")" && return 1; }
  [[ $status == "$wanted" ]] || { echo "status $status, expected $wanted" && return 1; }
}

# ---- Shared memory

if [[ $all ]]; then ranks=(1 2 3 4 5 6 7 8 9 16 17 31); else ranks=(1 2 3 8); fi
if [[ $all ]]; then types=(f32 f64 bf16 f16 i32 i64); else types=(bf16 i64); fi
# From less than a line of cache to more than windows, blocks and the sizes from which caches are bypassed; odd ones.
sizes=(--bytes 252..10MB --factor 33)
largest_bytes=8000000

for n in "${ranks[@]}"; do
  for memory in shared private; do
    check "exact: $n ranks, $memory memory" exact --ranks "$n" --memory "$memory" "${sizes[@]}"
  done
done
if [[ $all ]]; then ops=(sum product min max average); else ops=(product average); fi
for type in "${types[@]}"; do
  for op in "${ops[@]}"; do
    check "exact: $type $op" exact --ranks 3 --type "$type" --op "$op" --verb reduce,all_reduce,reduce_scatter "${sizes[@]}"
  done
done
if [[ $all ]]; then schedule_ranks=(2 3 8); else schedule_ranks=(3); fi
for algorithm in staged ring bidirectional_ring tree double_tree halving_doubling bruck direct; do
  for n in "${schedule_ranks[@]}"; do
    check "exact: $algorithm on $n ranks" exact --ranks "$n" --algorithm "$algorithm" --memory private \
      --verb broadcast,reduce,all_reduce,reduce_scatter,all_gather,scatter,gather,all_to_all "${sizes[@]}"
  done
done
check "exact: threads" exact --ranks 4 --threads "${sizes[@]}"
check "exact: another root" exact --ranks 4 --root 2 "${sizes[@]}"

# ---- MPI

mpi() { mpirun --allow-run-as-root --oversubscribe -n "$1" "$program" bench comm --json --timeout 60s --blocks 1 --iterations 1 "${@:2}" >"$out" 2>"$err"; }
exact_over_mpi() {  # exact_over_mpi RANKS ARGUMENT...
  local rows right
  mpi "$@" || { cat "$err" && return 1; }
  rows=$(grep -c '"verb":' "$out")
  right=$(grep -c '"wrong": 0,' "$out")
  ((rows > 0 && rows == right)) && grep -q '"transport": "mpi"' "$out" && reaches_large
}
twinpod version >/dev/null
[[ $program == ./twinpod ]] && program=build/release/twinpod
check "exact: MPI, its own collectives" exact_over_mpi 3 "${sizes[@]}"
check "exact: MPI, ring" exact_over_mpi 3 --algorithm ring --verb all_reduce,all_gather,reduce_scatter "${sizes[@]}"
check "exact: MPI, bf16 averages" exact_over_mpi 2 --type bf16 --op average --verb all_reduce,reduce_scatter "${sizes[@]}"

# ---- What is printed, and refused

bench --ranks 2 --verb all_reduce --bytes 1KiB
check "the table has the columns of nccl-tests" grep -qE 'size B +count +type +redop +root +time us +algbw GB/s +busbw GB/s +#wrong' "$out"
bench --ranks 2 --verb all_reduce --bytes 1KiB --json
for key in verb bytes type algorithm time_s algbw_bytes_per_s busbw_bytes_per_s wrong expected_s; do
  check "JSON has $key" grep -q "\"$key\":" "$out"
done
if [[ -x build/release/bench_openmpi_peer ]]; then
  bench --ranks 2 --verb all_reduce --bytes 1KiB --json --against openmpi
  check "JSON has the peer's time" grep -qE '"openmpi": [0-9.e-]+' "$out"
fi
check "refused: an unknown verb" refuses 2 "all_reduce" bench comm --verb all_redcue
check "refused: sizes that fall" refuses 2 "a range that rises" bench comm --bytes 8KiB..8
check "refused: a root that is no rank" refuses 2 "there are 2 ranks" bench comm --root 7
check "refused: a fault of no rank" refuses 2 "there are 2 ranks" bench comm --fault kill:9@3
last_size() { twinpod bench comm --verb all_reduce --bytes 8..100 --blocks 1 --iterations 1 --json </dev/null | grep -q '"bytes": 100,'; }
check "a range has its end" last_size
check "refused: too many ranks" refuses 2 "expected 1 to 256" bench comm --ranks 1000
check "refused: an unknown algorithm" refuses 2 "--algorithm rink" bench comm --algorithm rink
check "refused: an unknown peer" refuses 2 "expected openmpi, gloo or memory" bench comm --against nccl
check "refused: nothing to bench" refuses 2 "twinpod bench comm" bench
check "refused: a recording that is not there" refuses 2 "cannot be read" doctor "$scratch/none.json"
echo '{"a": 1}' >"$scratch/other.json"
check "refused: a file that is no recording" refuses 2 "no recording of a failed run" doctor "$scratch/other.json"
finish_checks
