#!/usr/bin/env bash
# The public safetensors package opens every shard and finds in it what the manifest says; and our reader opens what the
# package writes.
#
#     TWINPOD_SAFETENSORS=FOLDER tests/store_safetensors.sh [--program PATH]
#
# Optional: FOLDER is a virtual environment, made when it is not there. Without TWINPOD_SAFETENSORS, or where PyPI cannot
# be reached, nothing is checked.
source "$(dirname "$0")/check.bash"
if [[ ${1:-} == --program ]]; then program=$2; fi

skip_all() { skip "the safetensors package" "$1" && exit 0; }

if [[ -z ${TWINPOD_SAFETENSORS:-} ]]; then skip_all "TWINPOD_SAFETENSORS is not set"; fi
python=$TWINPOD_SAFETENSORS/bin/python
if ! "$python" -c 'import safetensors, numpy' 2>/dev/null; then
  { python3 -m venv "$TWINPOD_SAFETENSORS" && "$TWINPOD_SAFETENSORS/bin/pip" install safetensors numpy; } >"$scratch/install" 2>&1 ||
    skip_all "safetensors cannot be installed"
fi

# By the unit test that leaves them; whichever program with the tests is there.
write_shards() {
  local tests
  for tests in "${TWINPOD_TESTS:-}" build/release/twinpod_tests_high build/release/twinpod_tests; do
    if [[ -x $tests ]]; then break; fi
  done
  TEST_TMPDIR=$scratch/ "$tests" --gtest_filter='StoreDump.*' >"$scratch/out" 2>&1 && [[ -d $scratch/store_shards ]] && return
  cat "$scratch/out"
  return 1
}

# Every element of the model of src/store/test_checkpoints.hpp follows from step, tensor and place.
cat >"$scratch/read.py" <<'END'
import glob, json, sys
import numpy, safetensors
tensors = ["embedding", "layers.0.norm", "layers.0.qkv", "layers.1.conv", "scale", "none"]
opened = 0
for path in sorted(glob.glob(sys.argv[1] + "/*/checkpoint-*/manifest.json")):
    body = json.load(open(path))["body"]
    folder = path.rsplit("/", 1)[0]
    files = [safetensors.safe_open(folder + "/" + shard["file"], "np") for shard in body["shards"]]
    opened += len(files)
    seen = [set() for _ in files]
    for tensor in body["tensors"]:
        elements = int(numpy.prod(tensor["shape"], dtype=numpy.int64))
        first = body["state"]["step"] * 10000 + tensors.index(tensor["name"]) * 1000
        wanted = (first + numpy.arange(elements, dtype=numpy.float32)).reshape(tensor["shape"])
        for region in tensor["regions"]:
            begins, sizes = region["offset"], region["size"]
            ranges = ",".join("%d:%d" % (b, b + s) for b, s in zip(begins, sizes))
            name = tensor["name"] if sizes == tensor["shape"] else "%s[%s]" % (tensor["name"], ranges)
            found = files[region["shard"]].get_tensor(name)
            seen[region["shard"]].add(name)
            box = tuple(slice(b, b + s) for b, s in zip(begins, sizes))
            assert found.dtype == numpy.float32 and numpy.array_equal(found, wanted[box]), (path, name)
    for file, names in zip(files, seen): assert set(file.keys()) == names, (path, names)
assert opened > 10, opened
END

# One tensor of each type that numpy has.
cat >"$scratch/write.py" <<'END'
import sys
import numpy, safetensors.numpy
types = ["bool", "uint8", "int8", "uint16", "int16", "float16", "uint32", "int32", "float32", "uint64", "int64", "float64"]
safetensors.numpy.save_file({t: (numpy.arange(12) % 2).astype(t).reshape(3, 4) for t in types}, sys.argv[1], {"note": "a"})
END
cat >"$scratch/same.py" <<'END'
import sys
import numpy, safetensors.numpy
a, b = (safetensors.numpy.load_file(path) for path in sys.argv[1:])
assert len(a) == 12 and a.keys() == b.keys() and all(a[k].dtype == b[k].dtype and numpy.array_equal(a[k], b[k]) for k in a)
END

check "safetensors: shards are written" write_shards
check "safetensors: the package reads every shard" "$python" "$scratch/read.py" "$scratch/store_shards"
check "safetensors: the package writes" "$python" "$scratch/write.py" "$scratch/theirs.safetensors"
check "safetensors: which is imported" twinpod checkpoint import "$scratch/theirs.safetensors" -o "$scratch/store"
check "safetensors: and exported" twinpod checkpoint export "$scratch/store" -o "$scratch/ours.safetensors"
check "safetensors: the package reads that" "$python" "$scratch/same.py" "$scratch/theirs.safetensors" "$scratch/ours.safetensors"
finish_checks
