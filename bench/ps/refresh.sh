#!/usr/bin/env bash
# Takes the figures of docs/study.md again: the picture docs/study.svg, the table beside it, and what stragglers cost.
# About four minutes, on an idle machine.
#
#     bench/ps/refresh.sh [--program PATH]
set -euo pipefail
cd "$(dirname "$0")/../.."
program=./twinpod
if [[ ${1:-} == --program ]]; then program=$2; fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$program" study sync-async examples/tiny-gpt.yaml -o docs/study.svg >"$scratch/study"
bench/ps/stragglers.sh --program "$program" >"$scratch/stragglers" || echo "refresh.sh: a bar was missed, see docs/study.md" >&2
python3 - "$scratch" <<'END'
import re, sys

page = open("docs/study.md").read()
for name in ("study", "stragglers"):
    figures = open(f"{sys.argv[1]}/{name}").read().rstrip("\n")
    block = f"<!-- {name} -->\n```text\n{figures}\n```\n<!-- end -->"
    page, count = re.subn(rf"<!-- {name} -->\n.*?<!-- end -->", lambda _: block, page, flags=re.S)
    assert count == 1, name
open("docs/study.md", "w").write(page)
END
