#!/usr/bin/env bash
# What a simulation costs over 2^6 to 2^20 devices: ops simulated (they follow the kinds of ranks), and seconds (to which
# finding the kinds adds a little for each rank). Writes docs/folding.svg.
#
#     bench/folding/run.sh [BUILD_FOLDER]
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." || exit 1
build=${1:-build/release}
cmake --build "$build" --target sim_step_bench >/dev/null || exit 1
"$build/bench/sim_step_bench" --benchmark_filter='^devices/' --benchmark_format=csv 2>/dev/null |
  awk -F, '
    function x(devices) { return 90 + 560 * (log(devices) / log(2) - 6) / 14 }
    function y(value) { return 330 - 280 * (log(value) / log(10) + 1) / 7 }
    function label(n) {
      if (n >= 1048576) return "1 Mi"
      return (n >= 1024) ? (n / 1024 " Ki") : n
    }
    NR == 1 { for (i = 1; i <= NF; ++i) { gsub(/"/, "", $i); column[$i] = i } }
    $1 ~ /devices/ {
      gsub(/"/, "", $1); split($1, name, "/"); n = name[2]
      ms[n] = $column["cpu_time"]; events[n] = $column["events"]; kinds[n] = $column["kinds"]; order[++count] = n
    }
    END {
      print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 720 400\" font-family=\"sans-serif\" font-size=\"13\">"
      print "<rect width=\"720\" height=\"400\" fill=\"#ffffff\"/>"
      print "<text x=\"90\" y=\"28\" font-size=\"16\" fill=\"#1a1a1a\">One step simulated: 8 stages, 8 tensor ranks, more and more copies</text>"
      for (e = -1; e <= 6; ++e) {
        v = 10 ^ e
        printf "<line x1=\"90\" x2=\"650\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#e3e3e3\"/>", y(v), y(v)
        printf "<text x=\"80\" y=\"%.1f\" text-anchor=\"end\" fill=\"#555\">%s</text>\n", y(v) + 4, (v < 1 ? "0.1" : sprintf("%d", v))
      }
      for (i = 1; i <= count; ++i) {
        n = order[i]
        printf "<text x=\"%.1f\" y=\"352\" text-anchor=\"middle\" fill=\"#555\">%s</text>\n", x(n), label(n)
        a = a sprintf("%.1f,%.1f ", x(n), y(events[n])); b = b sprintf("%.1f,%.1f ", x(n), y(ms[n])); c = c sprintf("%.1f,%.1f ", x(n), y(kinds[n])); d = d sprintf("%.1f,%.1f ", x(n), y(n))
        printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"#1f6f8b\"/><circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"#c8553d\"/><circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"#588157\"/>\n", x(n), y(events[n]), x(n), y(ms[n]), x(n), y(kinds[n])
      }
      printf "<polyline points=\"%s\" fill=\"none\" stroke=\"#bbbbbb\" stroke-dasharray=\"4 4\"/>\n", d
      printf "<polyline points=\"%s\" fill=\"none\" stroke=\"#1f6f8b\" stroke-width=\"2\"/>\n", a
      printf "<polyline points=\"%s\" fill=\"none\" stroke=\"#c8553d\" stroke-width=\"2\"/>\n", b
      printf "<polyline points=\"%s\" fill=\"none\" stroke=\"#588157\" stroke-width=\"2\"/>\n", c
      n = order[count]
      printf "<text x=\"656\" y=\"%.1f\" fill=\"#1f6f8b\">ops</text><text x=\"656\" y=\"%.1f\" fill=\"#c8553d\">ms</text><text x=\"656\" y=\"%.1f\" fill=\"#588157\">kinds</text><text x=\"656\" y=\"%.1f\" fill=\"#999\">ranks</text>\n", y(events[n]) - 6, y(ms[n]) + 14, y(kinds[n]) + 5, y(n) + 4
      print "<text x=\"370\" y=\"380\" text-anchor=\"middle\" fill=\"#1a1a1a\">devices</text>"
      print "</svg>"
    }' >docs/folding.svg
