#!/bin/sh
# Compares flows with SimGrid: builds compare.cpp (needs Debian's libsimgrid-dev) and prints the largest difference.
# Exit 1 when it is above 1 %. Arguments: number of cases (200), first seed (0).
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
out=${TMPDIR:-/tmp}/twinpod-simgrid
if ! [ -e /usr/include/simgrid/s4u.hpp ]; then
  echo "SimGrid is not installed: apt-get install libsimgrid-dev" >&2
  exit 1
fi
mkdir -p "$out"
sources="$root/src/core/error.cpp"
for file in "$root"/src/sim/flow*.cpp "$root"/src/sim/fold*.cpp; do
  case $file in *_test.cpp | *_bench.cpp | *_fuzz.cpp) ;; *) sources="$sources $file" ;; esac
done
# shellcheck disable=SC2086
g++ -std=c++20 -O2 -I "$root/src" "$root/bench/simgrid/compare.cpp" $sources -lfmt -lsimgrid -o "$out/compare"
exec "$out/compare" "$@"
