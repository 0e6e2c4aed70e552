#!/usr/bin/env bash
# 200 random kills (kill -9 of servers and workers) over one run with a parameter server, beside the same run undisturbed.
# What must come out: status 0 of both, losses that differ by no more than two undisturbed runs do, no update lost or twice.
#
#     bench/ps/kills.sh [KILLS] [STEPS]       about two minutes on two cores
cd "$(dirname "$0")/../.." || exit 1
kills=${1:-200}
steps=${2:-1000}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

run() {  # run NAME FLAG...
  local name=$1
  shift
  ./twinpod train examples/tiny-gpt.yaml --set model.layers=2 --set model.hidden=64 --set model.ffn=192 --learning-rate 2e-3 \
    --servers 3 --workers 2 --copies 2 --mode ssp:2 --steps "$steps" --json "$@" >"$scratch/$name.json" || exit 1
}
run calm
run calm_again
run rough --fault "random:$kills"
python3 - "$scratch" <<'END'
import json, sys
keys = ("final_loss", "run_time_s", "deaths", "failovers", "updates_applied", "updates_lost", "updates_twice", "staleness_max")
print(("{:12}" + " {:>15}" * len(keys)).format("run", *keys))
for name in ("calm", "calm_again", "rough"):
    run = json.load(open(f"{sys.argv[1]}/{name}.json"))
    print(("{:12}" + " {:>15.6g}" * len(keys)).format(name, *(run[key] for key in keys)))
    if run["updates_lost"] or run["updates_twice"]:
        sys.exit("updates are not accounted for")
END
