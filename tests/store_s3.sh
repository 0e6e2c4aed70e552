#!/usr/bin/env bash
# Checkpoints in an object store, against a real S3 server on this machine: moto, from PyPI. Saved, restored, killed at
# random moments of an upload, through a network that loses answers, and by `twinpod train`: nothing is lost, and nothing
# stays behind.
#
#     TWINPOD_S3=FOLDER tests/store_s3.sh [--program PATH]
#
# Optional: FOLDER is a virtual environment, made when it is not there. Without TWINPOD_S3, or where PyPI cannot be
# reached, nothing is checked.
source "$(dirname "$0")/check.bash"
if [[ ${1:-} == --program ]]; then program=$2; fi

skip_all() { skip "a real S3 server" "$1" && exit 0; }

if [[ -z ${TWINPOD_S3:-} ]]; then skip_all "TWINPOD_S3 is not set"; fi
if [[ ! -x $TWINPOD_S3/bin/moto_server ]]; then
  { python3 -m venv "$TWINPOD_S3" && "$TWINPOD_S3/bin/pip" install 'moto[s3,server]==5.*' boto3; } >"$scratch/install" 2>&1 ||
    skip_all "moto cannot be installed"
fi
python=$TWINPOD_S3/bin/python

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Hands requests on to the server. Each so often it hands one on and then hangs up, or answers 503 in its place.
cat >"$scratch/proxy.py" <<'END'
import http.client, http.server, random, socketserver, sys
port, target, seed = map(int, sys.argv[1:])
random.seed(seed)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fate = random.random()
        if fate < 0.1: return self.answer(503, [], b"")
        server = http.client.HTTPConnection("127.0.0.1", target)
        server.request(self.command, self.path, body, dict(self.headers))
        answer = server.getresponse()
        data = answer.read()
        if fate < 0.2:
            self.close_connection = True
            return
        self.answer(answer.status, answer.getheaders(), data)
    def answer(self, status, headers, data):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection"): self.send_header(name, value)
            elif name.lower() == "content-length" and self.command == "HEAD": self.send_header(name, value)
        if self.command != "HEAD": self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD": self.wfile.write(data)
    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer): daemon_threads = True
Server(("127.0.0.1", port), Handler).serve_forever()
END

port=$(free_port)
proxy_port=$(free_port)
"$TWINPOD_S3/bin/moto_server" -H 127.0.0.1 -p "$port" >"$scratch/server.log" 2>&1 &
server=$!
"$python" "$scratch/proxy.py" "$proxy_port" "$port" 1 >"$scratch/proxy.log" 2>&1 &
proxy=$!
trap 'kill "$server" "$proxy" 2>/dev/null; rm -rf "$scratch"' EXIT
export AWS_ACCESS_KEY_ID=someone AWS_SECRET_ACCESS_KEY=something AWS_ENDPOINT_URL=http://127.0.0.1:$port

# ask CODE: Python with `s3`, the server without the proxy.
ask() {
  "$python" -c "import boto3, sys
s3 = boto3.client('s3', region_name='us-east-1')
$1"
}
for ((i = 0; i < 100; ++i)); do
  ask "s3.create_bucket(Bucket='models')" >/dev/null 2>&1 && break
  sleep 0.2
done

write_weights() {  # write_weights FILE MIB
  python3 - "$1" "$2" <<'END'
import json, os, struct, sys
elements = int(sys.argv[2]) << 18
head = json.dumps({"w": {"dtype": "F32", "shape": [elements], "data_offsets": [0, 4 * elements]}}).encode()
head += b" " * (-len(head) % 8)
open(sys.argv[1], "wb").write(struct.pack("<Q", len(head)) + head + os.urandom(4 * elements))
END
}

saves() { twinpod checkpoint import "$1" -o "$2" >"$scratch/out" 2>&1 || { cat "$scratch/out" && return 1; }; }

# The newest whole checkpoint is this file.
holds() {  # holds STORE FILE
  rm -f "$scratch/back"
  twinpod checkpoint export "$1" -o "$scratch/back" >"$scratch/out" 2>&1 || { cat "$scratch/out" && return 1; }
  # Ours has metadata in its header; the elements are behind it.
  cmp <(tail -c "$tensor_bytes" "$2") <(tail -c "$tensor_bytes" "$scratch/back")
}

verifies() { twinpod checkpoint verify "$@" >"$scratch/out" 2>&1 || { cat "$scratch/out" && return 1; }; }

nothing_left() {  # nothing_left PREFIX: no upload, and no object outside of checkpoints with a manifest
  ask "
left = s3.list_multipart_uploads(Bucket='models').get('Uploads', [])
keys = [o['Key'] for o in s3.list_objects_v2(Bucket='models', Prefix='$1/').get('Contents', [])]
whole = {k.rsplit('/', 1)[0] for k in keys if k.endswith('/manifest.json')}
odd = [k for k in keys if '/checkpoint-' in k and k.rsplit('/', 1)[0] not in whole]
if left or odd: print([u['Key'] for u in left], odd)
sys.exit(bool(left or odd))"
}

tensor_bytes=$((40 << 20))
write_weights "$scratch/one" 40
write_weights "$scratch/two" 40
check "s3: a save in parts" saves "$scratch/one" s3://models/runs/a
check "s3: is restored" holds s3://models/runs/a "$scratch/one"
check "s3: the bucket itself is a store" saves "$scratch/one" s3://models
check "s3: another" saves "$scratch/two" s3://models/runs/a/
check "s3: is the newest" holds s3://models/runs/a "$scratch/two"
check "s3: both are whole" verifies s3://models/runs/a
check "s3: latest names it" ask "sys.exit(s3.get_object(Bucket='models', Key='runs/a/latest')['Body'].read() != b'checkpoint-000002\n')"
check "s3: no upload is left" nothing_left runs/a

# A byte of a shard becomes another one.
flip() {
  ask "
key = 'runs/a/checkpoint-000002/shard-00000.safetensors'
data = bytearray(s3.get_object(Bucket='models', Key=key)['Body'].read())
data[5000000] ^= 1
s3.put_object(Bucket='models', Key=key, Body=bytes(data))"
}
check "s3: damage is put in" flip
check "s3: and seen" eval '! verifies s3://models/runs/a >/dev/null && grep -qF "extent 4" "$scratch/out"'

# Killed twenty times, at moments that cover the upload.
kill_saves() {
  local i child start=$EPOCHREALTIME took
  saves "$scratch/one" s3://models/runs/k || return 1
  took=$(python3 -c "print($EPOCHREALTIME - $start)")
  for ((i = 1; i <= 20; ++i)); do
    twinpod checkpoint import "$scratch/two" -o s3://models/runs/k >/dev/null 2>&1 &
    child=$!
    sleep "$(python3 -c "print($took * $i / 21)")"
    kill -9 "$child" 2>/dev/null && echo "$i" >>"$scratch/killed"
    wait "$child" 2>/dev/null
    twinpod checkpoint export s3://models/runs/k -o "$scratch/back" --force >"$scratch/out" 2>&1 || { cat "$scratch/out" && return 1; }
    tail -c "$tensor_bytes" "$scratch/back" >"$scratch/back.bytes"
    cmp -s "$scratch/back.bytes" <(tail -c "$tensor_bytes" "$scratch/one") ||
      cmp -s "$scratch/back.bytes" <(tail -c "$tensor_bytes" "$scratch/two") || { echo "lost after kill $i" && return 1; }
  done
}
check "s3: killed twenty times, there is always a whole one" kill_saves
check "s3: most were killed in time" eval '(($(wc -l <"$scratch/killed") >= 10))'
check "s3: the next save" saves "$scratch/two" s3://models/runs/k
check "s3: is there" holds s3://models/runs/k "$scratch/two"
check "s3: and removes what the killed ones left" nothing_left runs/k
check "s3: what is there is whole" verifies s3://models/runs/k

# One of five requests has no answer, or a bad one; half of those without were carried out.
flaky="s3://models/runs/f?endpoint=http://127.0.0.1:$proxy_port"
saves_over_a_bad_network() {
  local i
  for ((i = 0; i < 5; ++i)); do saves "$scratch/one" "$flaky" || return 1; done
}
check "s3: answers are lost: five saves" saves_over_a_bad_network
check "s3: answers are lost: it is read" holds "$flaky" "$scratch/one"
check "s3: answers are lost: five whole ones are there" \
  eval '[[ $(twinpod checkpoint ls s3://models/runs/f | grep -c "yes       yes") == 5 ]]'
check "s3: answers are lost: prune" twinpod checkpoint prune "$flaky" --keep 1
check "s3: answers are lost: one is left" verifies s3://models/runs/f

# train saves there, alone or behind a folder, is killed, and goes on from there with the same bits.
source tests/train_job.bash
trains() { twinpod train "$@" --deterministic --json >"$scratch/out.json" 2>"$scratch/err" </dev/null || { cat "$scratch/err" && return 1; }; }
kill_train() {  # kill_train PREFIX ARGUMENT...: once it has saved there
  local prefix=$1 job_process i
  shift
  setsid "$program" train "$job" --ranks 2 --steps 1000000 --decay constant --checkpoint-every 3 --deterministic "$@" \
    >/dev/null 2>"$scratch/err" </dev/null &
  job_process=$!
  for ((i = 0; i < 300; ++i)); do
    ask "s3.head_object(Bucket='models', Key='$prefix/latest')" >/dev/null 2>&1 && break
  done
  kill -9 -- "-$job_process"
  wait "$job_process" 2>/dev/null
  ((i < 300)) || { cat "$scratch/err" && return 1; }
}
same_bits() {  # same_bits STORE: five steps more are those of a run that nobody killed
  local steps
  trains --resume "$1" --steps 1 || return 1
  steps=$(($(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["first_step"])' "$scratch/out.json") + 5))
  trains --resume "$1" --steps "$steps" && mv "$scratch/out.json" "$scratch/resumed.json" || return 1
  trains "$job" --ranks 2 --decay constant --steps "$steps" || return 1
  python3 - "$scratch/resumed.json" "$scratch/out.json" <<'END_OF_PYTHON'
import json, sys
resumed, whole = (json.load(open(path)) for path in sys.argv[1:])
assert resumed["first_step"] >= 3 and len(resumed["losses"]) == 5, resumed["first_step"]
assert resumed["losses"] == whole["losses"][-5:] and resumed["final_loss"] == whole["final_loss"]
assert resumed["checkpoint_step"] == len(whole["losses"]), resumed["checkpoint_step"]
END_OF_PYTHON
}
check "s3: train saves there, and is killed" kill_train runs/t --store s3://models/runs/t
check "s3: train goes on from there, with the same bits" same_bits s3://models/runs/t
check "s3: what it saved is whole" verifies s3://models/runs/t
check "s3: and nothing else is left" nothing_left runs/t
tiers="[{tier: local, path: $scratch/fast}, {tier: object, path: s3://models/runs/u}]"
check "s3: train saves to a folder and from it to there, and is killed" kill_train runs/u --set "checkpoint.store=$tiers"
check "s3: the folder is lost" rm -r "$scratch/fast"
check "s3: train goes on from there" same_bits s3://models/runs/u
check "s3: and saves to both again" eval '[[ -e $scratch/fast/latest ]] && verifies s3://models/runs/u'

refuses() {  # refuses STATUS TEXT ARGUMENT...
  local wanted=$1 text=$2 status
  shift 2
  "$@" >"$scratch/out" 2>"$scratch/err"
  status=$?
  [[ $status == "$wanted" ]] && grep -qF -- "$text" "$scratch/err" && return
  echo "status $status: $(cat "$scratch/out" "$scratch/err")"
  return 1
}
check "s3: errors: no such bucket" refuses 1 NoSuchBucket twinpod checkpoint ls s3://nobody/runs
check "s3: errors: no such store" refuses 2 'did you mean s3://models/runs/a?' twinpod checkpoint ls s3://models/runs/aa
check "s3: errors: no keys" refuses 2 'set AWS_ACCESS_KEY_ID' env AWS_ACCESS_KEY_ID= "$program" checkpoint ls s3://models/runs/a
check "s3: errors: no such setting" refuses 2 'did you mean endpoint?' twinpod checkpoint ls 's3://models/runs/a?endpont=http://x'
check "s3: errors: an endpoint that is none" refuses 2 'did you mean http://127.0.0.1:1?' \
  twinpod checkpoint ls 's3://models/a?endpoint=127.0.0.1:1'
finish_checks
