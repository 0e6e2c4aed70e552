#!/usr/bin/env bash
# Whole-program output, byte for byte: tests/golden/*.txt hold a command in their first line, then what it prints on both
# streams, then its exit status. How long a search took, what JSON and CSV have beyond the third digit, and what the demo
# measures on this machine is left out.
#
#     tests/golden.sh             compare
#     tests/golden.sh --update    write what the program prints now
#     tests/golden.sh --program PATH [--update]
source "$(dirname "$0")/check.bash"
read_options "$@"

steady() {
  sed -E -e 's/, in [0-9.]+ [^ ]+ \([^)]*\/s and core\)$/, in TIME/' \
    -e 's/"(seconds|layouts_per_s)": [0-9.e+-]+/"\1": TIME/' -e 's/^( *"[a-z_]+": -?[0-9]+\.[0-9]{3})[0-9]+/\1/' \
    -e 's/(,[0-9]+\.[0-9]{3})[0-9]+/\1/g' -e 's/\r$//' -e '/^And on the [0-9]+ cores of this machine/,$d'
}

transcript() {  # transcript COMMAND_LINE
  local -a words
  echo "\$ $1"
  eval "words=($1)"
  "${words[@]}" 2>&1 </dev/null | steady
  echo "status ${PIPESTATUS[0]}"
}

is_as_before() {
  transcript "$2" >"$scratch/now"
  diff -u "$1" "$scratch/now"
}

for file in tests/golden/*.txt; do
  IFS= read -r command <"$file"
  command=${command#\$ }
  if [[ $update ]]; then
    transcript "$command" >"$scratch/now" && cp "$scratch/now" "$file"
    echo "wrote $file"
  else
    check "golden: $(basename "$file" .txt)" is_as_before "$file" "$command"
  fi
done
finish_checks
