#!/usr/bin/env bash
# twinpod checkpoint: import, ls, verify, show, diff, prune, export, and what is refused.
#
#     tests/checkpoint_cli.sh [--program PATH]
source "$(dirname "$0")/check.bash"
if [[ ${1:-} == --program ]]; then program=$2; fi

refuses() {  # refuses STATUS TEXT ARGUMENT...
  local wanted=$1 text=$2 status
  shift 2
  twinpod checkpoint "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
  status=$?
  [[ $status == "$wanted" && ! -s $scratch/out ]] && grep -qF -- "$text" "$scratch/err" && return
  echo "status $status: $(cat "$scratch/out" "$scratch/err")"
  return 1
}

says() {  # says TEXT ARGUMENT...
  local text=$1
  shift
  twinpod checkpoint "$@" >"$scratch/out" 2>"$scratch/err" </dev/null && grep -qF -- "$text" "$scratch/out" &&
    [[ ! -s $scratch/err ]] && return
  cat "$scratch/out" "$scratch/err"
  return 1
}

json_says() {  # json_says EXPRESSION ARGUMENT...: true of the object, which is `j`
  local expression=$1
  shift
  twinpod checkpoint "$@" --json >"$scratch/out" 2>"$scratch/err" </dev/null || { cat "$scratch/err" && return 1; }
  python3 -c 'import json, sys; j = json.load(sys.stdin); sys.exit(0 if eval(sys.argv[1]) else 1)' "$expression" \
    <"$scratch/out" || { cat "$scratch/out" && return 1; }
}

# A file of safetensors by the published layout, with nothing of ours: two tensors, the second one scaled.
write_weights() {  # write_weights FILE FACTOR
  python3 - "$1" "$2" <<'END'
import json, struct, sys
name, factor = sys.argv[1], float(sys.argv[2])
rows, columns = 300, 1000
w = struct.pack("<%df" % (rows * columns), *[i % 7 - 3 for i in range(rows * columns)])
n = struct.pack("<4f", 1 * factor, 2, float("nan"), 4)
head = json.dumps({"layers.0.w": {"dtype": "F32", "shape": [rows, columns], "data_offsets": [0, len(w)]},
                   "norm": {"dtype": "F32", "shape": [4], "data_offsets": [len(w), len(w) + len(n)]}}).encode()
head += b" " * (-len(head) % 8)
open(name, "wb").write(struct.pack("<Q", len(head)) + head + w + n)
END
}

# Its bytes from byte AT on become other ones.
damage() {  # damage FILE AT
  printf '\xff\xfe\xfd' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

store=$scratch/a
write_weights "$scratch/one.safetensors" 1
write_weights "$scratch/two.safetensors" 1.5
check "import: a file of others" says "$store/checkpoint-000001: step 0" import "$scratch/one.safetensors" -o "$store"
check "import: another" says checkpoint-000002 import "$scratch/two.safetensors" -o "$store"
check "import: the shard is the file" cmp "$scratch/one.safetensors" "$store/checkpoint-000001/shard-00000.safetensors"
check "ls: both, the newest first" json_says \
  '[c["number"] for c in j["checkpoints"]] == [2, 1] and all(c["complete"] and c["verified"] for c in j["checkpoints"])' ls "$store"
check "ls: its keys" json_says '{"step", "tier", "bytes", "complete", "verified"} <= j["checkpoints"][0].keys()' ls "$store"
check "ls: several tiers" json_says 'len(j["checkpoints"]) == 4' ls "$store" "$store/"
check "ls: a quick look does not know" json_says 'j["checkpoints"][0]["verified"] is None' ls "$store" --quick
check "ls: a table" says 'yes       yes' ls "$store"
check "verify: all is well" says '2 checkpoints are whole' verify "$store"
check "show: tensors" says 'layers.0.w  F32   [300,1000]        1  1.20 MB' show "$store"
check "show: one tensor" json_says 'j["min"] == 1.5 and j["max"] == 4 and j["mean"] == 2.5 and j["nan"] == 1' \
  show "$store" --tensor norm
check "show: one tensor of an older one" json_says 'j["min"] == 1' show "$store/checkpoint-000001" --tensor norm
check "diff: one element" json_says \
  'j["same"] == 1 and [(t["name"], t["elements_different"], t["max_absolute"]) for t in j["tensors"]] == [("norm", 1, 0.5)]' \
  diff "$store/checkpoint-000001" "$store"
check "diff: of equal ones" says '0 tensors differ, 2 are the same bit by bit' diff "$store" "$store"
check "export: what was imported" says '2 tensors of step 0' export "$store/checkpoint-000001" -o "$scratch/out.safetensors"
check "import: what was exported" says checkpoint-000003 import "$scratch/out.safetensors" -o "$store"
check "diff: after both" says '0 tensors differ' diff "$store" "$store/checkpoint-000001"
check "export: does not replace" refuses 1 'out.safetensors: cannot be created: File exists' export "$store" -o "$scratch/out.safetensors"
check "export: unless told to" says '2 tensors' export "$store" -o "$scratch/out.safetensors" --force

damage "$store/checkpoint-000003/shard-00000.safetensors" 1100000
check "verify: names what is damaged" refuses 1 'bytes 1048576 to ' verify "$store"
check "verify: and the tensors" grep -qF 'of layers.0.w, norm' "$scratch/err"
check "verify: and counts those that are whole" grep -qF '2 checkpoints are whole' "$scratch/err"
check "ls: says so, too" json_says 'j["checkpoints"][0]["complete"] and not j["checkpoints"][0]["verified"]' ls "$store"
check "export: refuses what is damaged" refuses 1 'is damaged' export "$store" -o "$scratch/bad.safetensors"
check "export: and leaves nothing" test ! -e "$scratch/bad.safetensors" -a ! -e "$scratch/bad.safetensors.partial"
check "prune: only says" says 'would remove 1 checkpoint; the newest whole one is checkpoint-000002' prune "$store" --keep 1 --dry-run
check "prune: and removes nothing" test -d "$store/checkpoint-000001"
check "prune: a damaged one does not push out the newest whole one" says 'removed 1' prune "$store" --keep 1
check "prune: it is there" says '1 checkpoint is whole' verify "$store/checkpoint-000002"
check "prune: the older one is not" test ! -e "$store/checkpoint-000001"
check "prune: nothing more" says 'nothing to remove' prune "$store" --keep 2
truncate -s 1000 "$store/checkpoint-000003/shard-00000.safetensors"
check "ls: a shard that was cut short" says 'has 1000 bytes' ls "$store"
mkdir "$store/checkpoint-000004"
check "ls: a save that did not end" json_says '[c["complete"] for c in j["checkpoints"]] == [False, False, True]' ls "$store"
check "show: takes the newest that is complete" says 'checkpoint-000002: ' show "$store"

check "errors: unknown verb" refuses 2 'did you mean `twinpod checkpoint verify`?' verfy "$store"
check "errors: no verb" refuses 2 'checkpoint takes one of ls, verify'
check "errors: no store" refuses 2 'checkpoint ls takes 1 or more, but 0 are given' ls
check "errors: a store that is not there" refuses 2 "did you mean $scratch/a?" ls "$scratch/aa"
check "errors: an unknown tensor" refuses 2 'did you mean `norm`?' show "$store" --tensor nrm
check "errors: an unknown step" refuses 2 'did you mean --step 0?' show "$store" --step 7
check "errors: how many to keep" refuses 2 'add --keep 3' prune "$store"
check "errors: keep none" refuses 2 'expected a whole number of at least 1' prune "$store" --keep 0
check "errors: one to diff" refuses 2 'checkpoint diff takes 2, but 1 are given' diff "$store"
check "errors: no output" refuses 2 'add -o model.safetensors' export "$store"
check "errors: import of nothing" refuses 1 'cannot be opened' import "$scratch/none.safetensors" -o "$scratch/b"
head -c 100 "$scratch/one.safetensors" >"$scratch/cut.safetensors"
check "errors: import of what was cut short" refuses 2 'cut.safetensors: ' import "$scratch/cut.safetensors" -o "$scratch/b"
check "errors: one tensor in two files" refuses 2 'tensor layers.0.w is in ' import "$scratch/one.safetensors" "$scratch/two.safetensors" -o "$scratch/b"
check "errors: which leave nothing" test ! -e "$scratch/b"
finish_checks
