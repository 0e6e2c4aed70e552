#!/usr/bin/env bash
# twinpod data: text to token files and back, what is refused, and the same files read by other code.
#
#     tests/data.sh [--program PATH]
source "$(dirname "$0")/check.bash"
if [[ ${1:-} == --program ]]; then program=$2; fi

tokens=$scratch/tokens

refuses() {  # refuses STATUS TEXT ARGUMENT...
  local wanted=$1 text=$2 status
  shift 2
  twinpod "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
  status=$?
  [[ $status == "$wanted" && ! -s $scratch/out ]] && grep -qF -- "$text" "$scratch/err" && return
  echo "status $status: $(cat "$scratch/out" "$scratch/err")"
  return 1
}

says() {  # says TEXT ARGUMENT...
  local text=$1
  shift
  twinpod "$@" >"$scratch/out" 2>"$scratch/err" </dev/null && grep -qF -- "$text" "$scratch/out" && [[ ! -s $scratch/err ]] &&
    return
  cat "$scratch/out" "$scratch/err"
  return 1
}

only_these() {  # only_these FOLDER NAME...
  local folder=$1
  shift
  [[ $(find "$folder" -mindepth 1 -printf '%P\n' | sort | xargs) == "$*" ]]
}

# Reads the pair by the published layout with nothing of ours, and compares with the text itself.
read_by_python() {
  python3 - "$tokens" "$scratch/corpus" <<'END'
import os, struct, sys
name, folder = sys.argv[1:]
index = open(name + ".idx", "rb").read()
tokens = open(name + ".bin", "rb").read()
magic, version, code, sequences, bounds = struct.unpack_from("<9sQBQQ", index)
assert (magic, version, code) == (b"MMIDIDX\0\0", 1, 8), (magic, version, code)
at = struct.calcsize("<9sQBQQ")
lengths = struct.unpack_from(f"<{sequences}i", index, at)
at += 4 * sequences
places = struct.unpack_from(f"<{sequences}q", index, at)
at += 8 * sequences
documents = struct.unpack_from(f"<{bounds}q", index, at)
assert at + 8 * bounds == len(index)
found = [list(struct.unpack_from(f"<{n}H", tokens, place)) for n, place in zip(lengths, places)]
paths = sorted(os.path.join(top, file) for top, _, files in os.walk(folder) for file in files)
texts = [text for text in (open(path, "rb").read() for path in paths) if text and b"\0" not in text]
assert documents == tuple(range(len(texts) + 1)), documents
assert found == [list(text) + [256] for text in texts]
END
}

mkdir -p "$scratch/corpus/deeper" "$scratch/nothing"
cp docs/glossary.md "$scratch/corpus/deeper/"
printf 'The first text.\nIts second line, with an \xc3\xa9.' >"$scratch/corpus/a.txt"
printf 'no\0text' >"$scratch/corpus/b.bin"
: >"$scratch/corpus/c.txt"

check "data: text becomes tokens" says 'vocabulary 257' data prepare "$scratch/corpus" -o "$tokens"
check "data: what is no text is counted" grep -q 'NUL bytes, so no text  *1$' "$scratch/out"
check "data: show counts documents" says '"documents": 2,' data show "$tokens" --json
check "data: show decodes the first text" says 'The first text.\nIts second line, with an é.' data show "$tokens.idx" --check
check "data: the largest token ends a document" grep -q 'largest token  *256$' "$scratch/out"
if command -v python3 >"$scratch/which"; then
  check "data: other code reads the same tokens" read_by_python
else
  skip "data: other code reads the same tokens" "there is no python3"
fi

check "data: what is there is kept" refuses 2 'is already there' data prepare "$scratch/corpus" -o "$tokens"
cp "$tokens.bin" "$scratch/before.bin"
cp "$tokens.idx" "$scratch/before.idx"
check "data: --force replaces it" says '"tokenizer": "bytes"' data prepare "$scratch/corpus/" -o "$tokens" --force --json
check "data: the same text gives the same bytes" cmp "$tokens.bin" "$scratch/before.bin"
check "data: and the same index" cmp "$tokens.idx" "$scratch/before.idx"

check "data: an empty corpus" refuses 2 'the corpus has no text: 0 files' data prepare "$scratch/nothing" -o "$scratch/nothing/t"
check "data: which leaves nothing" only_these "$scratch/nothing"
check "data: a corpus that is not there" refuses 2 "$scratch/none: is not there" data prepare "$scratch/none" -o "$scratch/t"
check "data: no output" refuses 2 'add --output NAME' data prepare docs
check "data: a folder as output" refuses 2 'found a folder' data prepare docs -o "$scratch/nothing/"
check "data: unknown tokenizer" refuses 2 'no tokenizer `bpe`' data prepare docs -o "$scratch/t" --tokenizer bpe
check "data: unknown verb" refuses 2 'did you mean `twinpod data prepare`?' data prepar docs
check "data: no such tokens" refuses 2 "$scratch/t.idx: cannot be opened" data show "$scratch/t"
head -c 60 "$tokens.idx" >"$scratch/cut.idx"
cp "$tokens.bin" "$scratch/cut.bin"
check "data: an index that was cut short" refuses 2 'cut.idx: byte 26: ' data show "$scratch/cut"
cp "$tokens.idx" "$scratch/cut.idx"
head -c 60 "$tokens.bin" >"$scratch/cut.bin"
check "data: tokens that were cut short" refuses 2 'but the .bin file has 60 bytes' data show "$scratch/cut"
finish_checks
