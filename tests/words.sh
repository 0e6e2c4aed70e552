#!/usr/bin/env bash
# What the commands say: help that fits a terminal, one JSON object whatever happens, hints that work as they stand, and
# no text that only a machine reads.
#
#     tests/words.sh [--program PATH]
source "$(dirname "$0")/check.bash"
read_options "$@"
out=$scratch/out

commands=$(twinpod help | sed -nE 's/^  ([a-z]+) +.*/\1/p')
is_narrow() { "$program" $1 --help | awk -v what="$1" 'length > 80 { print what ": " $0; wide = 1 } END { exit wide }'; }
check "help: the overview fits 80 columns" is_narrow ""
for command in $commands; do check "help: $command fits 80 columns" is_narrow "$command"; done

is_object_with() { python3 -c 'import json, sys; sys.exit(sys.argv[1] not in json.load(open(sys.argv[2])))' "$1" "$out"; }
one_object() {  # one_object STATUS KEY ARGUMENT...
  local wanted=$1 key=$2 status
  shift 2
  twinpod "$@" >"$out" 2>/dev/null </dev/null
  status=$?
  [[ $status == "$wanted" ]] && is_object_with "$key"
}
check "json: version" one_object 0 version version --json
check "json: --version" one_object 0 version --version --json
check "json: an unknown command" one_object 2 error estimte --json
check "json: a flag in the place of a command" one_object 2 error --json
check "json: help" one_object 0 help --help --json
check "json: help of a command" one_object 0 help plan --help --json
check "json: help of an unknown command" one_object 2 error help estimte --json
check "json: a word that version does not take" one_object 2 error version now --json

says() { grep -qE -- "$1" "$out" || { cat "$out" && return 1; }; }
says_not() { if grep -E -- "$1" "$out"; then return 1; fi; }

llama=(llama3-8b --on dgx-h100 --tp 8 --sp)
twinpod simulate "${llama[@]}" >"$out"
check "simulate: the layout is told" says 'dp 1 × tp 8 × pp 1'
check "simulate: the stack is told" says 'stack [a-z]+'
twinpod estimate "${llama[@]}" >"$out"
check "estimate: GB beside the GiB that the device is called by" says '80 GiB = 85\.9 GB'
twinpod show device h100-sxm >"$out"
check "show: GB beside the GiB that the device is called by" says 'memory +80 GiB = 85\.9 GB'

twinpod plan llama3-70b --on h100-superpod --devices 512 --global-batch 512 >"$out"
numbered_alike() {  # the finalists' numbers are those of the ranking: same number, same tp, pp and micro-batch
  awk '/^ +# +dp/ { table = 1; next } /^ +# +closed/ { table = 2; next } /^$/ { if (rows[table]) table = 0; next }
    /^best:/ { table = 0 }
    table == 1 && $1 ~ /^[0-9]+$/ { shape[$1] = $2 " " $3 " " $4; ++rows[1] }
    table == 2 && $1 ~ /^[0-9]+$/ { ++rows[2]; match($0, /dp [0-9]+ × tp [0-9]+ × pp [0-9]+/)
      split(substr($0, RSTART, RLENGTH), word, " "); if (shape[$1] != word[2] " " word[5] " " word[8]) { print; bad = 1 } }
    END { exit bad || rows[2] != 3 }' "$out"
}
check "plan: the simulated are numbered as the ranking is" numbered_alike

# A run that reaches its target at once, in a folder that a shell would take apart.
store="$scratch/a store"
tiny=(train examples/tiny-gpt.yaml --set training.target_loss=7 --set training.evaluate_every=2 --steps 8)
twinpod "${tiny[@]}" --store "$store" --checkpoint-every 2 >/dev/null 2>&1
twinpod train --resume "$store" >"$out" 2>&1
check "train: a run at its target says so" says 'has reached its target loss: nothing is left'
hint=$(sed -n 's/^ *to go on: twinpod //p' "$out")
eval "twinpod $hint" >"$out" 2>&1
check "train: the hint goes on" says 'Went on from .*, behind step 2'
check "train: to the end" says '^ +8 '
twinpod train --resume "$store" >"$out" 2>&1
check "train: a run at its last step says so" says 'is at step 8 of 8: nothing is left'
hint=$(sed -n 's/^ *to go on: twinpod //p' "$out")
eval "twinpod $hint" >"$out" 2>&1
check "train: the hint goes further" says 'behind step 8'
check "train: one rank is no plural" says ': 1 rank \('
twinpod checkpoint show "$store" >"$out"
check "checkpoint show: numbers are decimal" says_not '0x[0-9a-f.]+p'
twinpod checkpoint show "$store" --json >"$out"
check "checkpoint show: numbers are decimal in JSON" says_not '0x[0-9a-f.]+p'
finish_checks
