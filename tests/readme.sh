#!/usr/bin/env bash
# The examples of README.md and docs/*.md print what they say: each command `$ ./twinpod …` in a ```console block is run and
# compared with the lines that follow it. `…` matches the rest of a line, or any lines when it stands alone.
#
#     tests/readme.sh             compare
#     tests/readme.sh --update    write what the program prints now, but leave outputs with `…` alone
#     tests/readme.sh --program PATH [--update]
source "$(dirname "$0")/check.bash"
read_options "$@"

run_example() {  # run_example ARGUMENTS: into $scratch/actual
  local -a words
  eval "words=($1)"
  twinpod "${words[@]}" >"$scratch/actual" 2>&1 </dev/null
}

# The example that has been collected: $command and $scratch/expected.
finish_example() {
  [[ $command ]] || return 0
  run_example "$command"
  if [[ $update ]]; then
    if grep -q '…' "$scratch/expected"; then cat "$scratch/expected"; else cat "$scratch/actual"; fi >>"$scratch/document"
  else
    check "readme: $document: twinpod $command" matches "$scratch/expected" "$scratch/actual"
  fi
  command=
}

keep() { if [[ $update ]]; then printf '%s\n' "$1" >>"$scratch/document"; fi; }

read_document() {
  local line inside=
  command=
  : >"$scratch/document"
  while IFS= read -r line; do
    if [[ $line == '```console' ]]; then
      inside=yes
    elif [[ $inside && $line == '```' ]]; then
      finish_example
      inside=
    elif [[ $inside && $line == '$ ./twinpod'* ]]; then
      finish_example
      command=${line#'$ ./twinpod'}
      command=${command:- }
      : >"$scratch/expected"
    elif [[ $inside && $command ]]; then
      printf '%s\n' "$line" >>"$scratch/expected"
      continue
    fi
    keep "$line"
  done <"$document"
  if [[ $update ]] && ! cmp -s "$scratch/document" "$document"; then cp "$scratch/document" "$document" && echo "wrote $document"; fi
}

for document in README.md docs/*.md; do
  if [[ -e $document ]]; then read_document; fi
done
finish_checks
