#!/usr/bin/env bash
# Names, paths and texts that would like to be more: commands, Python, YAML, markup, sequences that a terminal obeys. Whatever
# is emitted, printed or drawn of them runs nothing of theirs, and does and says the same as with a plain name.
#
#     tests/hostile.sh [--program PATH]    two dozen names
#     tests/hostile.sh --all               1,000 names: some minutes
source "$(dirname "$0")/check.bash"
names=24
if [[ ${1:-} == --all ]]; then
  names=1000
  shift
fi
read_options "$@"

if ! command -v python3 >/dev/null; then
  skip "hostile: names that would like to be more" "there is no python3"
  finish_checks
fi
twinpod version >/dev/null  # builds, if need be
[[ $program == ./twinpod ]] && program=build/release/twinpod
mkdir "$scratch/hostile"
python3 tests/hostile.py "$program" "$scratch/hostile" "$names" || failed_checks=$((failed_checks + 1))
finish_checks
