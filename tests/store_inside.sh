#!/usr/bin/env bash
# Nothing outside of a store is touched, whatever is planted in it: symbolic links in place of checkpoints, of their
# files, of `latest` and of the lock. Every path that save, resume, prune, verify, ls and show give to the kernel is
# watched. And one job at a time saves to it.
#
#     tests/store_inside.sh [--program PATH]
source "$(dirname "$0")/check.bash"
source tests/train_job.bash
if [[ ${1:-} == --program ]]; then program=$2; fi

watched=strace
if ! command -v strace >/dev/null || ! strace -o /dev/null true 2>/dev/null; then
  echo "skipped: watching paths takes strace, and leave to use it; what the folder outside looks like is checked all the same"
  watched=
fi

store=$scratch/s
outside=$scratch/away
value() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1])).get(sys.argv[2]))' "$1" "$2"; }
look() { (cd "$outside" && find . -printf '%p %i %s %m %T@ %n\n' | sort && find . -type f -exec md5sum {} + | sort); }

# Runs it; every path that a call names or has open is looked at.
touches_nothing() {  # touches_nothing STATUS ARGUMENT...
  local wanted=$1 status
  shift
  look >"$scratch/before"
  timeout 120 ${watched:+strace -f -y --seccomp-bpf -e trace=%file,%desc -o "$scratch/trace"} "$program" "$@" \
    >"$scratch/out" 2>"$scratch/err" </dev/null
  status=$?
  look >"$scratch/after"
  cmp "$scratch/before" "$scratch/after" || return
  if [[ -n $watched ]] && grep -qF "$outside" "$scratch/trace"; then
    grep -F "$outside" "$scratch/trace" | head -3
    return 1
  fi
  [[ $wanted == any || $status == "$wanted" ]] && return
  echo "status $status: $(tail -3 "$scratch/err")"
  return 1
}

mkdir -p "$outside/folder"
save() { "$program" train "$job" --ranks 2 --store "$store" --checkpoint-every 2 --steps 6 --keep 3 >/dev/null 2>"$scratch/err" </dev/null; }
check "a store" save
newest=$(cat "$store/latest")
cp -r "$store/$newest/." "$outside/"
echo mine >"$outside/folder/mine"
number() { printf 'checkpoint-%06d' "$1"; }

# A whole checkpoint elsewhere, by a link of every age.
ln -s "$outside" "$store/checkpoint-000000"
ln -s "$outside" "$store/$(number 90)"
ln -s "$outside/folder" "$store/damaged-000007"
check "ls: links are named and not followed" touches_nothing 0 checkpoint ls "$store"
check "ls: says so" grep -q "is a symbolic link" "$scratch/out"
check "verify" touches_nothing any checkpoint verify "$store"
check "show" touches_nothing 0 checkpoint show "$store"
check "show: of the link" touches_nothing 1 checkpoint show "$store/$(number 90)"
check "prune" touches_nothing 0 checkpoint prune "$store" --keep 1
check "prune: the links are there still" test -L "$store/checkpoint-000000" -a -L "$store/$(number 90)"
check "resume, save and prune" touches_nothing 0 train --resume "$store" --steps 10
check "resume: the newest is saved, behind the link's number" test "$(cat "$store/latest")" '>' "$(number 90)"

# Files of a checkpoint, and what lies beside.
one=$(cat "$store/latest")
ln -sf "$outside/folder/mine" "$store/latest"
ln -s "$outside/folder/mine" "$store/latest.partial"
check "latest is a link: resume" touches_nothing 0 train --resume "$store" --steps 12
check "latest is a file again" test -f "$store/latest" -a ! -L "$store/latest"
one=$(cat "$store/latest")
mv "$store/$one/manifest.json" "$scratch/kept" && ln -s "$outside/manifest.json" "$store/$one/manifest.json"
check "a manifest is a link: it is passed over" touches_nothing any train --resume "$store" --steps 14
rm "$store/$one/manifest.json" && mv "$scratch/kept" "$store/$one/manifest.json"
one=$(cat "$store/latest")
ln -sf "$outside/shard-00000.safetensors" "$store/$one/shard-00000.safetensors"
check "a shard is a link: resume passes it over" touches_nothing any train --resume "$store" --steps 16
check "a shard is a link: prune" touches_nothing any checkpoint prune "$store" --keep 1
mkdir "$store/$(number 200)"
ln -s "$outside/folder" "$store/$(number 200)/shard-00000.safetensors.partial"
check "links in what looks like a save that did not end" touches_nothing 0 train --resume "$store" --steps 18
check "... which is gone" test ! -e "$store/$(number 200)"
rm "$store/lock" && ln -s "$outside/folder/mine" "$store/lock"
check "the lock is a link: refused" touches_nothing 1 train --resume "$store" --steps 20
rm "$store/lock" && mkfifo "$store/$(number 90).pipe" && rm -r "$store/$one" && mkdir "$store/$one" && mkfifo "$store/$one/manifest.json"
check "a pipe in place of a manifest is not waited for" touches_nothing any checkpoint ls "$store"

# A job's memory without a path has a name that anybody can guess.
if ((EUID == 0)) && [[ ! -e /dev/shm/twinpod-$UID ]]; then
  foreign() {
    mkdir -m 777 "/dev/shm/twinpod-$UID" && chown 65534 "/dev/shm/twinpod-$UID"
    "$program" train "$job" --ranks 2 --steps 2 --set "checkpoint.store=[{tier: memory}, {tier: shared, path: $scratch/f}]" \
      >"$scratch/out" 2>"$scratch/err" </dev/null
    local status=$?
    rm -r "/dev/shm/twinpod-$UID"
    [[ $status == 1 ]] && grep -q "/dev/shm/twinpod-$UID: belongs to .*(65534)" "$scratch/err" && return
    echo "status $status: $(cat "$scratch/err")"
    return 1
  }
  check "memory of another user's making is refused" foreign
else
  echo "skipped: /dev/shm/twinpod-$UID of another user takes root, and a host where it is not in use"
fi

# Two jobs.
wait_until() {
  local i
  for ((i = 0; i < 600; ++i)); do
    "$@" && return
    sleep 0.05
  done
  return 1
}
two_jobs() {
  local first status
  setsid "$program" train "$job" --ranks 2 --steps 1000000 --store "$scratch/two" --checkpoint-every 5 >/dev/null 2>"$scratch/first" </dev/null &
  first=$!
  wait_until test -e "$scratch/two/latest"
  twinpod checkpoint prune "$scratch/two" --keep 1 >"$scratch/out" 2>"$scratch/err"
  [[ $? == 1 ]] && grep -q "another job saves there" "$scratch/err" || { echo "pruned beside a job" && kill -- "-$first" && return 1; }
  twinpod checkpoint ls "$scratch/two" --quick >/dev/null || { echo "ls is refused" && kill -- "-$first" && return 1; }
  twinpod train --resume "$scratch/two" --steps 2000000 >"$scratch/out" 2>"$scratch/err" </dev/null
  status=$?
  kill -9 -- "-$first"
  wait "$first" 2>/dev/null
  [[ $status == 1 ]] && grep -q "another job saves there: process [0-9]* on host $(hostname) since 20" "$scratch/err" && return
  echo "status $status: $(cat "$scratch/err")"
  return 1
}
check "two jobs: the second is told who saves there" two_jobs
check "... and goes on at once when the first was killed" touches_nothing 0 train --resume "$scratch/two" --steps 1

# Versions and damage.
newer() {
  cp -r "$scratch/two" "$scratch/newer"
  local one
  one=$(cat "$scratch/newer/latest")
  sed -i 's/{"twinpod_checkpoint":1,"checksum":"./{"twinpod_checkpoint":2,"checksum":"z/' "$scratch/newer/$one/manifest.json"
  twinpod checkpoint prune "$scratch/newer" --keep 1 >"$scratch/out" 2>"$scratch/err"
  [[ $? == 1 ]] && grep -q "$one is of version 2 of the format, but this twinpod knows version 1" "$scratch/err" || return 1
  twinpod train --resume "$scratch/newer" --steps 1000000000 >"$scratch/out" 2>"$scratch/err" </dev/null
  [[ $? == 1 ]] && grep -q "knows version 1" "$scratch/err" && test -d "$scratch/newer/$one"
}
check "a store with a newer format is neither pruned nor saved to" newer
damaged() {
  "$program" train "$job" --ranks 2 --store "$scratch/d" --checkpoint-every 2 --steps 6 --keep 3 >/dev/null 2>"$scratch/err" </dev/null
  local oldest
  oldest=$(find "$scratch/d" -name 'checkpoint-*' -printf '%f\n' | sort | head -1)
  [[ $oldest != "$(cat "$scratch/d/latest")" ]] || { echo "one checkpoint alone" && return 0; }
  truncate -s -5 "$scratch/d/$oldest/manifest.json"
  "$program" train --resume "$scratch/d" --steps 8 --keep 1 >/dev/null 2>"$scratch/err" </dev/null
  local aside=damaged-${oldest#checkpoint-}
  [[ -e $scratch/d/$aside/shard-00000.safetensors && ! -e $scratch/d/$oldest ]] || return 1
  twinpod checkpoint ls "$scratch/d" >"$scratch/out" && grep -q "$aside: damaged, set aside; .twinpod checkpoint prune $scratch/d --damaged. removes it" "$scratch/out" || return 1
  twinpod checkpoint prune "$scratch/d" --keep 5 >/dev/null && [[ -e $scratch/d/$aside ]] || return 1
  twinpod checkpoint prune "$scratch/d" --damaged >/dev/null && [[ ! -e $scratch/d/$aside ]]
}
check "a damaged checkpoint is set aside, listed, and removed when that is asked for" damaged
finish_checks
