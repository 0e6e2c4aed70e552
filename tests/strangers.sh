#!/usr/bin/env bash
# Who is not of the job and reaches the ports of its parameter server: forged messages, floods, huge ones, connections
# that say nothing, random bytes, other keys, recorded handshakes. The job goes on to its end with the same losses, its
# memory stays what it was, and who came is counted and named. Also: key files that are refused, and who listens where.
#
#     tests/strangers.sh           all kinds in four runs: some 40 s
#     tests/strangers.sh --all     each kind in a run of its own, too: one more minute
#     tests/strangers.sh --program PATH
source "$(dirname "$0")/check.bash"
source tests/train_job.bash
all=
if [[ ${1:-} == --all ]]; then
  all=yes
  shift
fi
read_options "$@"
twinpod version >/dev/null  # builds, if need be
[[ $program == ./twinpod ]] && program=build/release/twinpod
ulimit -n "$(ulimit -Hn)" 2>/dev/null

port=$((20000 + $$ % 400 * 100 + 60))
key=$scratch/job.key
flags=("$job" --servers 2 --workers 2 --copies 2 --deterministic --steps 150 --json)

# Strangers call from 127.0.0.9; host 1 is 127.0.0.2.
cat >"$scratch/stranger.py" <<'PYTHON'
import os, socket, struct, sys, time
what, port = sys.argv[1], int(sys.argv[2])
ports = [port, port + 2, port + 4]  # of host 0: the controller, a server, a worker
KINDS = {"leave": 12, "join": 11, "push": 1}

def call(to, patience=60, host="127.0.0.1"):
    end = time.time() + patience
    while True:
        s = socket.socket()
        s.bind(("127.0.0.9", 0))
        s.settimeout(5)
        try:
            s.connect((host, to))
            return s
        except OSError:
            s.close()
            if time.time() > end: sys.exit(f"nobody listens on {to}")
            time.sleep(0.02)

def header(kind, sender, payload=0):  # of a message of the parameter server
    return struct.pack("<IBBBBiiiiQQqqQdqQQ", 0x31507754, KINDS[kind], 0, 0, 1 if kind == "join" else 0, sender, 0, 0, -1,
                       0, 0, 0, -1, 0, 0.0, 0, payload, 0)

def frame(body, size=None):  # of ZMTP
    size = len(body) if size is None else size
    return (b"\x00" + bytes([size]) if size < 256 else b"\x02" + struct.pack(">Q", size)) + body

def greet(s, mechanism=b"NULL"):  # as a ZeroMQ socket without a key does
    s.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + mechanism.ljust(20, b"\0") + bytes(32))
    ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x04PUSH"
    s.sendall(b"\x04" + bytes([len(ready)]) + ready)
    time.sleep(0.2)

def send(s, data):
    try: s.sendall(data)
    except OSError: pass

def pour(s, megabytes):  # until nobody listens
    piece = b"x" * (1 << 20)
    for _ in range(megabytes):
        try: s.sendall(piece)
        except OSError: return

calls = 0
if what in ("leave", "join"):
    senders = range(1, 8) if what == "leave" else range(8, 4008)
    for plain in (False, True):  # by itself, and as ZeroMQ would
        s = call(ports[0])
        if not plain: greet(s)
        for sender in senders: send(s, header(what, sender) if plain else frame(header(what, sender)))
        calls += 1
elif what == "huge":
    for to in ports:
        s = call(to)
        greet(s)
        send(s, frame(b"", 6 << 30))
        pour(s, 200)
        s = call(to)
        send(s, header("push", 5, 6 << 30))
        pour(s, 200)
        s = call(to)
        send(s, b"\x16\x03\x01\xff\xff\x01\xff\xff\xff")  # TLS: a record and a first message as large as can be said
        pour(s, 200)
        calls += 3
elif what == "bytes":
    for i in range(200):
        s = call(ports[i % 3])
        send(s, os.urandom(1 + i * 7))
        s.close()
        calls += 1
elif what == "silent":
    kept = []
    call(ports[0])
    for i in range(1000):
        kept.append(call(ports[i % 3]))
        if i % 10 == 0: send(kept[-1], b"\x16")  # says a little, and then nothing
        calls += 1
    try: time.sleep(3.5)
    except KeyboardInterrupt: pass
elif what == "slow":  # a byte at a time
    hello = bytes.fromhex("16030100c8010000c40303") + os.urandom(300)
    kept = [call(to) for to in ports * 5]
    for byte in hello[:70]:
        for s in kept: send(s, bytes([byte]))
        time.sleep(0.05)
    calls = len(kept)
elif what == "replay":  # what another host said to host 0, recorded on the way, once more
    import threading
    said = []
    def relay(a, b, record):
        while True:
            try: data = a.recv(65536)
            except OSError: data = b""
            if not data: break
            if record is not None: record.append(data)
            send(b, data)
        for s in (a, b):
            try: s.shutdown(socket.SHUT_RDWR)
            except OSError: pass
    def listen(to):
        listener = socket.create_server(("127.0.0.5", to), backlog=64)
        while True:
            a, _ = listener.accept()
            b = socket.create_connection(("127.0.0.1", to)) if open_now(to) else None
            if b is None:
                a.close()
                continue
            record = []
            said.append((to, record))
            threading.Thread(target=relay, args=(a, b, record), daemon=True).start()
            threading.Thread(target=relay, args=(b, a, None), daemon=True).start()
    def open_now(to):
        try: socket.create_connection(("127.0.0.1", to)).close()
        except OSError: return False
        return True
    for to in ports: threading.Thread(target=listen, args=(to,), daemon=True).start()
    open(sys.argv[3], "w").close()  # it relays
    while len([1 for to, record in said if sum(map(len, record)) > 800]) < 3: time.sleep(0.05)
    for to, record in list(said):
        if sum(map(len, record)) <= 800: continue
        s = call(to)
        send(s, b"".join(list(record)))
        calls += 1
    while open_now(ports[0]): time.sleep(0.2)  # goes on as the way between the hosts
    time.sleep(1)
print(calls)
PYTHON

host() {  # host NUMBER HOSTS FLAG...: in the background
  local number=$1 hosts=$2
  shift 2
  timeout 60 "$program" train "${flags[@]}" --hosts "$hosts" --host "$number" --port "$port" --key "$key" --timeout 20s "$@" \
    >"$scratch/host$number.json" 2>"$scratch/host$number.err" </dev/null &
  started=$!
}

memory_of() {  # memory_of PID: the most that any of its processes has had, in MB
  local child most=0 now
  for child in $(pgrep -P "$1") $(pgrep -P "$(pgrep -P "$1" | head -n 1)" 2>/dev/null); do
    now=$(sed -n 's/^VmHWM:\s*\([0-9]*\) kB/\1/p' "/proc/$child/status" 2>/dev/null)
    if ((${now:-0} > most)); then most=$now; fi
  done
  echo $((most / 1024))
}

holds() {  # holds EXPRESSION: of both hosts' runs, of the reference, and of what the stranger said
  python3 -c 'import json, sys
host, other, alone = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("host0", "host1", "alone"))
came = host["strangers"]
calls = sum(int(line) for line in open(sys.argv[1] + "/calls"))
callers = {one["address"]: one["connections"] for one in came["from"]}
assert host["losses"][-1] != host["losses"][0] and host["final_loss"] == alone["final_loss"], (host["final_loss"], alone["final_loss"])
assert host["deaths"] == other["deaths"] == 0 == host["updates_lost"] == host["updates_twice"], host["deaths"]
if not eval("(" + sys.argv[2] + ")"):
    sys.exit(f"not so: {sys.argv[2]}: {calls} calls, {came}")' "$scratch" "$1"
}

# A run of two hosts with strangers beside it.
disturbed() {  # disturbed MEGABYTES EXPRESSION WHAT...: what its memory may grow to
  local megabytes=$1 expression=$2 what first other most=0 now strangers=()
  shift 2
  port=$((port + 10))
  host 1 127.0.0.1,127.0.0.2
  other=$started
  host 0 127.0.0.1,127.0.0.2 --pace 20ms
  first=$started
  for what; do
    python3 "$scratch/stranger.py" "$what" "$port" >"$scratch/$what.calls" 2>"$scratch/$what.err" &
    strangers+=($!)
  done
  while kill -0 $first 2>/dev/null; do
    now=$(memory_of $first)
    if ((now > most)); then most=$now; fi
    sleep 0.2
  done
  wait $first || { cat "$scratch/host0.err" && return 1; }
  wait $other || { cat "$scratch/host1.err" && return 1; }
  wait "${strangers[@]}" || { cat "$scratch"/*.err && return 1; }
  for what; do cat "$scratch/$what.calls"; done >"$scratch/calls"
  ((most > 10 && most < megabytes)) || { echo "a process had $most MB, and $megabytes are too much" && return 1; }
  holds "$expression"
}

alone() {
  timeout 60 "$program" train "$job" --ranks 2 --deterministic --steps 150 --json >"$scratch/alone.json" 2>"$scratch/err" </dev/null ||
    cat "$scratch/err"
  host 1 127.0.0.1,127.0.0.2
  local other=$started
  host 0 127.0.0.1,127.0.0.2
  local first=$started
  until [[ $(listening) == *":$port"* ]] || ! kill -0 $first; do sleep 0.05; done
  listening >"$scratch/listening"
  wait "$first" && wait "$other" || { cat "$scratch"/host?.err && return 1; }
  : >"$scratch/calls"
  holds "came['connections'] == other['strangers']['connections'] == came['messages'] == came['impostors'] == 0"
}
listening() {  # addresses and ports of the job: decimal, one in a line
  python3 -c 'import sys
first = int(sys.argv[1])
for table in ("/proc/net/tcp", "/proc/net/tcp6"):
    for line in open(table).readlines()[1:]:
        local, _, state = line.split()[1:4]
        address, port = local.split(":")
        if state == "0A" and first <= int(port, 16) < first + 10:
            print(".".join(str(b) for b in bytes.fromhex(address)[::-1]) + ":" + str(int(port, 16)))' "$port"
}
check "no stranger, the losses of two ranks" alone
only_where_told() { [[ -s $scratch/listening ]] && ! grep -vE '^127\.0\.0\.[12]:' "$scratch/listening"; }
check "it listens on the addresses that were named, and on no other" only_where_told
check "the key is its owner's alone" test "$(stat -c '%a %s' "$key")" == "600 65"

named="callers['127.0.0.9'] >= calls > 0 and any('strangers were turned away' in note for note in host['notes'])"
check "forged leaves, a flood of joins, 6 GB, random bytes, 1,000 that are silent, and slow ones, all at once" \
  disturbed 150 "$named and calls > 1200" leave join huge bytes silent slow
if [[ $all ]]; then
  check "forged leave" disturbed 150 "$named" leave
  check "a flood of joins" disturbed 150 "$named" join
  check "messages of 6 GB" disturbed 150 "$named" huge
  check "random bytes" disturbed 150 "$named" bytes
  check "1,000 connections that say nothing" disturbed 150 "$named and calls == 1000" silent
  check "a byte at a time" disturbed 150 "$named" slow
fi

# Another job, with another key: its host 1 calls our host 0.
other_key() {
  port=$((port + 10))
  host 1 127.0.0.1,127.0.0.2
  local other=$started ours=$key
  host 0 127.0.0.1,127.0.0.2 --pace 20ms
  local first=$started
  key=$scratch/other.key
  (umask 077 && python3 -c 'print("5e" * 32)' >"$key")
  timeout 30 "$program" train "${flags[@]}" --hosts 127.0.0.1,127.0.0.3 --host 1 --port "$port" --key "$key" --timeout 9s \
    >/dev/null 2>"$scratch/stranger.err" </dev/null &
  local stranger=$!
  key=$ours
  wait "$first" && wait "$other" || { cat "$scratch"/host?.err && return 1; }
  wait "$stranger"
  (($? == 1)) && grep -q "is --key the same on all hosts" "$scratch/stranger.err" || { cat "$scratch/stranger.err" && return 1; }
  : >"$scratch/calls"
  holds "came['connections'] > 2"
}
check "another job's key" other_key

replayed() {
  port=$((port + 10))
  rm -f "$scratch/relays"
  python3 "$scratch/stranger.py" replay "$port" "$scratch/relays" >"$scratch/calls" 2>"$scratch/stranger.err" &
  local stranger=$!
  until [[ -e $scratch/relays ]] || ! kill -0 $stranger; do sleep 0.05; done
  host 1 127.0.0.5,127.0.0.2
  local other=$started
  host 0 127.0.0.1,127.0.0.2 --pace 20ms
  wait "$started" && wait "$other" || { cat "$scratch"/host?.err && return 1; }
  wait $stranger || { cat "$scratch/stranger.err" && return 1; }
  holds "callers['127.0.0.9'] >= calls >= 3"
}
check "handshakes that were recorded" replayed

refuses() {  # refuses PATTERN FLAG...
  local pattern=$1 status
  shift
  timeout 20 "$program" train "${flags[@]}" --hosts 127.0.0.1 "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
  status=$?
  ((status == 2)) && grep -qE -- "$pattern" "$scratch/err" "$scratch/out" && return
  echo "status $status: $(cat "$scratch/out" "$scratch/err")"
  return 1
}
check "several hosts need a key" refuses "--hosts without --key"
(umask 022 && python3 -c 'print("5e" * 32)' >"$scratch/open.key")
check "a key that others may read" refuses "0644, expected 0600" --key "$scratch/open.key"
(umask 077 && echo secret >"$scratch/short.key")
check "a key that is none" refuses "expected 64 digits" --key "$scratch/short.key"
ln -s "$key" "$scratch/link.key"
check "a link to a key" refuses "not a link" --key "$scratch/link.key"
check "a folder for a key" refuses "file, and this is none" --key "$scratch"
check "nowhere to put a key" refuses "cannot be made: No such file" --key "$scratch/none/job.key"

check "no process is left" test -z "$(pgrep -f -- "--port $port")"
finish_checks
