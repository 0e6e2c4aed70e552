#!/usr/bin/env bash
# The examples of README.md and docs/*.md print what they say: each ```console block whose first line starts with
# `$ ./twinpod` is run, and compared with what follows. `…` matches the rest of a line, or any lines when it stands alone.
#
#     tests/readme.sh [--program PATH]
source "$(dirname "$0")/check.bash"
if [[ ${1:-} == --program ]]; then program=$2; fi

# Writes the blocks of a document to $scratch/FILE.N.block.
extract_blocks() {
  awk -v prefix="$scratch/${1//\//_}" '
    /^ *```console *$/ { inside = 1; first = 1; next }
    /^ *```/ && inside { inside = 0; if (file) close(file); file = ""; next }
    inside && first { first = 0; file = ""; if ($0 ~ /^\$ \.\/twinpod/) file = prefix "." ++count ".block" }
    inside && file { print > file }' "$1"
}

# A block may hold several commands, each followed by its output.
block_is_true() {
  local line command="" status=0
  : >"$scratch/expected"
  while IFS= read -r line || [[ $line ]]; do
    if [[ $line == '$ ./twinpod'* ]]; then
      if [[ $command ]]; then run_and_compare "$command" || status=1; fi
      command=${line#'$ ./twinpod'}
      : >"$scratch/expected"
    else
      printf '%s\n' "$line" >>"$scratch/expected"
    fi
  done <"$1"
  run_and_compare "$command" || status=1
  return $status
}

run_and_compare() {
  local -a words
  eval "words=($1)"
  twinpod "${words[@]}" >"$scratch/actual" 2>&1 </dev/null
  matches "$scratch/expected" "$scratch/actual" || {
    echo "in: ./twinpod$1"
    return 1
  }
}

for document in README.md docs/*.md; do
  [[ -e $document ]] || continue
  extract_blocks "$document"
  for block in "$scratch/${document//\//_}".*.block; do
    [[ -e $block ]] || continue
    number=${block%.block}
    check "readme: $document, example ${number##*.}" block_is_true "$block"
  done
done
finish_checks
