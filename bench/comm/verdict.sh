#!/usr/bin/env bash
# Holds what `twinpod bench comm --json` and comm_overlap_bench measured against the bars of communication: for each, the
# least ratio and where.
#
#     bench/comm/verdict.sh FILE...      exit status 1 if a bar is missed
#
# A ratio is the other's time divided by ours, so more is better. Of rows that were measured several times, the best of
# each counts, ours and theirs: where the pages of a run lie in memory decides some tens of per cent.
rows() {  # memory ranks verb bytes time in_place openmpi gloo limit, - for what is not known
  awk -F'[:,]' '
    function flush() {
      if (verb != "") print memory, ranks, verb, bytes, time, placed, peer["openmpi"], peer["gloo"], peer["memory"]
      verb = ""
    }
    { key = $1; value = $2; gsub(/[ "\t]/, "", key); gsub(/[ \t]/, "", value) }
    key == "ranks" { flush(); ranks = value }
    key == "memory" && value ~ /"/ { memory = value; gsub(/"/, "", memory) }
    key == "verb" { flush(); verb = value; gsub(/"/, "", verb); peer["openmpi"] = peer["gloo"] = peer["memory"] = "-" }
    key == "bytes" { bytes = value }
    key == "time_s" { time = value }
    key == "in_place_time_s" { placed = value == "null" ? "-" : value }
    (key in peer) && value ~ /^[0-9]/ { peer[key] = value }
    END { flush() }' "$@"
}

best() {  # the least of each, of rows for the same
  awk '
    { key = $1 " " $2 " " $3 " " $4 }
    !(key in known) { known[key] = 1; order[++num] = key }
    {
      for (i = 5; i <= 9; ++i)
        if ($i != "-" && (!((key, i) in least) || $i + 0 < least[key, i] + 0)) least[key, i] = $i
    }
    END {
      for (k = 1; k <= num; ++k) {
        line = order[k]
        for (i = 5; i <= 9; ++i) line = line " " ((order[k], i) in least ? least[order[k], i] : "-")
        print line
      }
    }'
}

hidden() {  # of what comm_overlap_bench wrote: name and share
  awk -F'[:,]' '{ key = $1; gsub(/[ "\t]/, "", key) }
    key == "name" { name = $2; gsub(/[ "]/, "", name) }
    key == "hidden" { print "overlap", name, $2 + 0 }' "$@"
}

{ rows "$@" | best; hidden "$@"; } | awk '
  function size(bytes) {
    return bytes >= 1048576 ? bytes / 1048576 " MiB" : bytes >= 1024 ? bytes / 1024 " KiB" : bytes " B"
  }
  function look(bar, least, ratio, where) {
    if (!(bar in bars)) { order[++num] = bar; bars[bar] = least; worst[bar] = ratio + 1 }
    ++count[bar]
    if (ratio < least) ++missed[bar]
    if (ratio < worst[bar]) { worst[bar] = ratio; place[bar] = where }
  }
  $1 == "overlap" {
    split($2, part, "/")
    look("hidden behind computing", 0.8, $3, "all_reduce of " size(part[2]))
    next
  }
  {
    memory = $1; ranks = $2; verb = $3; bytes = $4; time = $5; placed = $6; openmpi = $7; gloo = $8; limit = $9
    where = verb " of " size(bytes)
    better = gloo != "-" && (openmpi == "-" || gloo + 0 < openmpi + 0) ? gloo : openmpi
    if (better != "-") look("not slower: " ranks " ranks, " memory " memory", 1, better / time, where)
    if (verb == "all_reduce" && ranks == 2 && bytes >= 65536 && bytes <= 134217728 && openmpi != "-") {
      bar = memory == "shared" ? 4 : 1.5
      look("all_reduce, 64 KiB to 128 MiB, " memory " memory", bar, openmpi / time, size(bytes))
      if (placed != "-") look("the same in place, " memory " memory", bar, openmpi / placed, size(bytes))
    }
    if (limit != "-" && memory == "shared" && bytes >= 67108864)
      look("what memory allows, 64 MiB and more", 0.8, limit / time, where)
  }
  END {
    for (i = 1; i <= num; ++i) {
      bar = order[i]
      printf "%-7s %-48s at least %.2f of %.2f, at %s (%d of %d rows below)\n", missed[bar] ? "missed" : "held", bar,
             worst[bar], bars[bar], place[bar], missed[bar], count[bar]
      if (missed[bar]) failed = 1
    }
    exit failed
  }'
